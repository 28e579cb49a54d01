"""The training loop of every network: checkpoints that resume, and stops that lose no step."""

from __future__ import annotations

import re
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import CancelledError, TrainingError, UsageError
from rotopaint_ai.jobs import Event
from rotopaint_ai.training.data.dataset_checks import fingerprint_arrays
from rotopaint_ai.training.trainer.activations import Activations
from rotopaint_ai.training.trainer.captured import CapturedGradients
from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.cores import make_timed
from rotopaint_ai.training.trainer.group import Group
from rotopaint_ai.training.trainer.log import Budget, Reporter
from rotopaint_ai.training.trainer.task import Moment, Task
from rotopaint_ai.training.trainer.trainer import CHECKPOINT, Trainer

CONFIG = TrainConfig(name="small", minutes=None, steps=10, eval_every=5, bf16=False)


class Small(nn.Module):
    """One layer and a batch norm, whose running means a bad batch corrupts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised features."""
        found: Tensor = self.norm(self.layer(x))
        return found


class SmallTask(Task[Small, npt.NDArray[np.float32]]):
    """Random pictures; one step's batch may be corrupt."""

    def __init__(self, spoilt_at: int = -1, data: float = 0.0) -> None:
        torch.manual_seed(0)
        self.net, self.spoilt_at, self.data = Small(), spoilt_at, data

    def arrays(self) -> list[npt.NDArray[Any]]:
        return [np.array([self.data])]

    def make_batch(self, moment: Moment) -> npt.NDArray[np.float32]:
        crops = np.random.default_rng(moment.step).standard_normal((2, 3, 8, 8)).astype(np.float32)
        return crops * np.float32("nan") if moment.step == self.spoilt_at else crops

    def to_device(self, batch: npt.NDArray[np.float32], moment: Moment) -> Tensor:
        return torch.from_numpy(batch).to(moment.device)

    def loss(self, net: Small, inputs: Tensor, moment: Moment) -> tuple[Tensor, dict[str, Tensor]]:
        return net(inputs).square().mean(), {"all": torch.tensor(1.0)}


def trainer(folder: Path, *, spoilt_at: int = -1, data: float = 0.0) -> Trainer[Small, npt.NDArray[np.float32]]:
    return Trainer(CONFIG, SmallTask(spoilt_at, data), folder)


def test_a_loss_that_is_no_number_leaves_the_checkpoint_before_it(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="step 7: the loss is not finite"):
        trainer(tmp_path, spoilt_at=7).fit()
    state = torch.load(tmp_path / CHECKPOINT, weights_only=True)
    assert state["at"] == 5
    assert torch.isfinite(state["net"]["norm.running_mean"]).all()


def test_a_stop_keeps_the_step_and_going_on_ends_in_the_same_weights(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = trainer(tmp_path / "whole").fit()
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 9:  # called before each step: eight are done, three since the last evaluation
            raise CancelledError("stop")

    with pytest.raises(CancelledError):
        trainer(tmp_path / "parts").fit(check=check)
    assert torch.load(tmp_path / "parts" / CHECKPOINT, weights_only=True)["at"] == 8
    sent: list[Event] = []
    parts = trainer(tmp_path / "parts").fit(resume=True, sink=sent.append)
    assert [event.facts["step"] for event in sent] == [10]
    for one, two in zip(whole.net.state_dict().values(), parts.net.state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_progress_is_reported_between_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotopaint_ai.training.trainer.trainer.Reporter", partial(Reporter, every_s=0.0))
    sent: list[Event] = []
    seconds = count(1000.0)  # a second passes whenever somebody looks
    made = trainer(tmp_path)
    made.budget = Budget(None, now=lambda: next(seconds))
    made.fit(sink=sent.append)
    shares = [event.facts["share"] for event in sent]
    assert 0 < shares[0] < shares[-1] == 1
    assert shares == sorted(shares)
    times = [event.facts["eta_s"] for event in sent]
    assert times[0] > times[-1] == 0
    assert ["step" in event.facts for event in sent] == [k in (5, 10) for k in range(1, 11)]


def test_ranks_draw_what_one_process_draws() -> None:
    config = TrainConfig(batch=6)
    alone = Moment(3, 0.0, config, Group())
    parts = [Moment(3, 0.0, config, Group(rank, 2)) for rank in (0, 1)]
    for one, two in ((alone.rows(100), [part.rows(100) for part in parts]), (_draws(alone), [*map(_draws, parts)])):
        assert [two[at % 2][at // 2] for at in range(6)] == one
        assert len(set(one)) > 1


def _draws(moment: Moment) -> list[float]:
    return [rng.random() for rng in moment.generators()]


def test_a_recipe_of_an_older_version_is_still_the_same_recipe(tmp_path: Path) -> None:
    first = trainer(tmp_path)
    first.save()
    state = torch.load(tmp_path / CHECKPOINT, weights_only=True)
    older = "task: pack\nname: small\nminutes: null\nsteps: 10\nlog_every: 5\nbf16: false\n"
    torch.save({**state, "recipe": older}, tmp_path / CHECKPOINT)
    trainer(tmp_path).load()
    torch.save({**state, "recipe": older + "batch: 4\n"}, tmp_path / CHECKPOINT)
    with pytest.raises(TrainingError, match="another recipe"):
        trainer(tmp_path).load()


def test_a_checkpoint_of_something_else_is_refused_in_a_line(tmp_path: Path) -> None:
    torch.save({"x": 1}, tmp_path / CHECKPOINT)
    with pytest.raises(TrainingError, match="another recipe; train again without --resume"):
        trainer(tmp_path).load()
    torch.save({"recipe": CONFIG.to_yaml()}, tmp_path / CHECKPOINT)
    with pytest.raises(TrainingError, match="another version, or from data with other landmarks; train again"):
        trainer(tmp_path).load()


@pytest.mark.parametrize("content", [b"", b"no checkpoint" * 40, "a list"], ids=["empty", "damaged", "of another kind"])
def test_a_checkpoint_that_is_none_is_reported_without_a_librarys_advice(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / CHECKPOINT
    path.write_bytes(content) if isinstance(content, bytes) else torch.save([content], path)
    with pytest.raises(TrainingError) as refused:
        trainer(tmp_path).load()
    reported = "cannot be read, it is damaged or no checkpoint; train again without --resume"
    assert str(refused.value) == f"{path}: {reported}"


def test_a_new_training_keeps_only_the_checkpoint_of_a_stopped_one(tmp_path: Path) -> None:
    stopped = trainer(tmp_path)
    stopped.at = 2
    stopped.save()
    content, events = (tmp_path / CHECKPOINT).read_bytes(), list[Event]()
    for _ in range(2):  # what the second one finds has ended
        trainer(tmp_path).fit(sink=events.append)
    kept = tmp_path / "checkpoint.2.pt"
    assert [path for path in tmp_path.glob("*.pt") if path.name != CHECKPOINT] == [kept]
    assert kept.read_bytes() == content
    reported = [event.facts["message"] for event in events if event.kind == "warning"]
    assert reported == [
        f"starts anew; {kept} keeps a training that was stopped (rename it to {CHECKPOINT} and --resume)"
    ]


def test_a_training_that_starts_anew_passes_over_a_damaged_checkpoint(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"no checkpoint" * 40)
    assert trainer(tmp_path).fit().steps == CONFIG.steps
    assert [path.name for path in tmp_path.glob("*.pt")] == [CHECKPOINT]


def test_a_checkpoint_from_other_data_is_not_resumed(tmp_path: Path) -> None:
    trainer(tmp_path, data=1).save()
    trainer(tmp_path, data=1).load()
    with pytest.raises(TrainingError, match="was made from other data; train again without --resume"):
        trainer(tmp_path, data=2).load()


def test_data_are_reported_apart_by_shape_kind_bytes_and_order() -> None:
    one, two = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    assert fingerprint_arrays([one, two]) == fingerprint_arrays([one.copy(), two[::-1][::-1]])
    others: list[list[npt.NDArray[Any]]] = [
        [two, one],
        [one],
        [one.reshape(3, 2), two],
        [one.astype(np.float64), two],
    ]
    assert len({fingerprint_arrays(each) for each in ([one, two], *others)}) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup": 1.0}, "warmup 1.0: wanted 0 to 0.9"),
        ({"weight_decay": -0.1}, "weight_decay -0.1"),
        ({"clip": 0.0}, "clip 0.0"),
        ({"learning_rate": 3.0}, "learning_rate 3.0"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_fields_out_of_range_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        TrainConfig(**changes)


@pytest.mark.parametrize(("mode", "tries"), [("keep", 1), ("auto", 3)])
def test_memory_that_runs_out_whatever_is_kept_ends_it_in_one_line(tmp_path: Path, mode: str, tries: int) -> None:
    run, tried = trainer(tmp_path), []
    run.activations = Activations(mode, [*run.net.children()])

    def ask(inputs: Any, moment: Moment) -> Any:
        tried.append(run.activations.current)
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate\n9 bytes")

    run.objective = ask
    with pytest.raises(TrainingError, match=r"step 0: memory ran out \(.* allocate 9 bytes\); set a smaller batch, or"):
        run.step(make_timed(run.task, run.moment(0)), 0.0)
    assert tried == ["keep", "checkpoint", "offload"][:tries]


def test_a_training_continues_with_a_warning_where_a_gpu_cannot_record_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    run, plain = trainer(tmp_path / "one"), trainer(tmp_path / "other")
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    moment = run.moment(0)
    run.captured = CapturedGradients(lambda inputs: run._compute(inputs, moment), [], None, failure="no such graph")
    monkeypatch.setattr(
        CapturedGradients, "_on_own_stream", lambda self, compute: compute()
    )  # there are no streams here
    found, expected = run.fit(sink=events.append), plain.fit()
    said = [event.facts["message"] for event in events if event.kind == "warning"]
    assert len(said) == 1
    assert "no such graph" in said[0]
    assert run.captured is None
    for one, other in zip(found.net.parameters(), expected.net.parameters()):
        assert torch.equal(one, other)
