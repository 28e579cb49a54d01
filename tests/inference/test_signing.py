"""Where a studio demands signatures, only packs that it signed open."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.errors import PackError, UsageError
from rotopaint_ai.inference import signing
from rotopaint_ai.inference.pack import load_pack

from .conftest import PackMaker

pytest.importorskip("cryptography")


def _keys(folder: Path, name: str = "studio") -> tuple[Path, Path]:
    """Files of a new private key and its public key."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder.mkdir(exist_ok=True)
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.key", folder / f"{name}.pem"
    plain = forms.NoEncryption()
    private.write_bytes(key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, plain))
    public.write_bytes(key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_only_signed_packs_open_where_a_studio_demands_it(
    make_pack: PackMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, _ = _keys(tmp_path / "keys")
    foreign, _ = _keys(tmp_path / "elsewhere", "foreign")
    folder = make_pack()
    load_pack(folder)  # no signature is demanded
    monkeypatch.setenv(signing.KEYS, str(tmp_path / "keys"))
    with pytest.raises(PackError, match=r"tiny: is not signed by a key of .*keys"):
        load_pack(folder)
    assert signing.main([str(folder), "--key", str(foreign)]) == 0
    with pytest.raises(PackError, match="is not signed by a key"):
        load_pack(folder)
    assert signing.main([str(folder), "--key", str(private)]) == 0
    assert load_pack(folder).name == "tiny"
    card = folder / "card.json"
    card.write_text(card.read_text(encoding="utf-8").replace("Apache-2.0", "Apache-2.1"), encoding="utf-8")
    with pytest.raises(PackError, match="is not signed by a key"):
        load_pack(folder)


def test_invalid_keys_are_reported_not_skipped(
    make_pack: PackMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_pack()
    for content in (b"", b"no key"):
        (tmp_path / "odd.pem").write_bytes(content)
        monkeypatch.setenv(signing.KEYS, str(tmp_path / "odd.pem"))
        with pytest.raises(UsageError, match=r"odd.pem: cannot be read as a public key"):
            load_pack(folder)
    monkeypatch.setenv(signing.KEYS, str(tmp_path / "tiny"))
    with pytest.raises(UsageError, match=r"holds no \*.pem"):
        load_pack(folder)
    assert signing.main([str(folder), "--key", str(tmp_path / "odd.pem")]) == 2
    assert "wanted an Ed25519 key" in capsys.readouterr().err
