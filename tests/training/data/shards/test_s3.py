"""A data set in a bucket, from a real S3 server on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from rotopaint_ai import remote
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.shards.write import pack_dataset

s3fs = pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 endpoint with an empty bucket; its URL prefix."""
    import boto3

    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    s3fs.S3FileSystem.clear_instance_cache()  # of an earlier server
    host, port = running.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("ROTOPAINT_CACHE", str(tmp_path / "cache")),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "PAUSE_S", 0.001)
    boto3.client("s3").create_bucket(Bucket="show")
    yield "s3://show/pip"
    running.stop()


def test_a_bucket_gives_what_the_folder_gives(faces: Path, bucket: str, tmp_path: Path) -> None:
    import boto3

    pack_dataset(faces, tmp_path / "packed", shard_mb=0.02)
    for path in sorted((tmp_path / "packed").rglob("*")):
        if path.is_file():
            boto3.client("s3").upload_file(str(path), "show", f"pip/{path.relative_to(tmp_path / 'packed')}")
    plain, streamed = read_dataset(faces), read_dataset(bucket)
    assert streamed.samples == plain.samples
    assert not list((tmp_path / "cache").rglob("*.tar"))  # nothing is fetched before it is needed
    np.testing.assert_array_equal(streamed.picture(1), plain.picture(1))
    assert len(list((tmp_path / "cache").rglob("*.tar"))) == 1
    boto3.client("s3").delete_object(Bucket="show", Key="pip/shards/000001.tar")
    gone = (streamed.groups() or ()).index(1)
    with pytest.raises(TrainingError, match=r"s3://show/pip/shards/000001.tar: .*4 tries"):
        streamed.picture(gone)
    assert os.environ["AWS_ENDPOINT_URL"]


def test_wrong_bytes_from_a_server_are_refused(faces: Path, bucket: str, tmp_path: Path) -> None:
    import boto3

    pack_dataset(faces, tmp_path / "packed", shard_mb=0.02)
    for path in sorted((tmp_path / "packed").rglob("*.*")):
        boto3.client("s3").upload_file(str(path), "show", f"pip/{path.relative_to(tmp_path / 'packed')}")
    right = (tmp_path / "packed/shards/000000.tar").read_bytes()
    boto3.client("s3").put_object(Bucket="show", Key="pip/shards/000000.tar", Body=right[::-1])
    with pytest.raises(TrainingError, match=r"000000.tar: the bytes do not match the expected hash \(4 tries\)"):
        read_dataset(bucket).picture(0)
    assert not list((tmp_path / "cache").rglob("*.tar"))
    boto3.client("s3").put_object(Bucket="show", Key="pip/shards/000000.tar", Body=right)
    np.testing.assert_array_equal(read_dataset(bucket).picture(0), read_dataset(faces).picture(0))


def test_a_bucket_that_is_not_there_is_one_line(bucket: str) -> None:
    with pytest.raises(TrainingError, match=r"s3://nowhere/x/dataset.json: .*bucket does not exist.*4 tries"):
        read_dataset("s3://nowhere/x")
    with pytest.raises(TrainingError, match="wanted a folder"):
        read_dataset("tape://x/y")


def test_any_store_that_fsspec_knows_will_do(faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTOPAINT_CACHE", str(tmp_path / "cache"))
    pack_dataset(faces, tmp_path / "packed", shard_mb=0.02)
    fsspec.filesystem("memory").put(f"{tmp_path}/packed/", "/show/pip/", recursive=True)
    np.testing.assert_array_equal(read_dataset("memory://show/pip").picture(1), read_dataset(faces).picture(1))
    with pytest.raises(TrainingError, match=r"gs://show/pip/dataset.json: .*gcsfs"):
        read_dataset("gs://show/pip")
