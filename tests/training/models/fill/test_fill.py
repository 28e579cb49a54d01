"""The learned fill trains on pictures whose true light is known, and numpy mixes light as torch does."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("torch")
pytest.importorskip("numba")

import torch

from rotopaint_ai.errors import CancelledError, TrainingError, UsageError
from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import find_pack, load_pack
from rotopaint_ai.seams import banks, learned_fill
from rotopaint_ai.stage import burnt_seams
from rotopaint_ai.stage.puppet_shot import write_looks
from rotopaint_ai.stage.shot_folder import SeamFrame
from rotopaint_ai.training.models.fill import strips, task
from rotopaint_ai.training.pack.network import TrainOptions, deliver, find_network
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.task import NETWORKS
from rotopaint_ai.training.trainer.trainer import Trainer


def _views(n: int, seed: int = 0) -> list[SeamFrame]:
    rng = np.random.default_rng(seed)
    return [burnt_seams.add_groove(burnt_seams.paint_texture(200, rng), rng) for _ in range(n)]


@pytest.fixture(scope="module")
def laid() -> list[strips.StraightenedFrame]:
    rng = np.random.default_rng(1)
    found = [strips.straighten_view(view, rng, 1.0) for view in _views(10)]
    return [one for one in found if one is not None]


def test_degraded_pairs_stay_pairs() -> None:
    """Lens, grade, grain and compression are the same for both: without a seam both come out equal."""
    clean = burnt_seams.paint_texture(96, np.random.default_rng(4))
    for seed in range(12):
        plate, true = strips.degrade_pair(clean, clean, 0.3, np.random.default_rng(seed))
        assert np.array_equal(plate, true)


def test_test_shots_are_refused_and_empty_ones_named(tmp_path: Path) -> None:
    (tmp_path / "test01").mkdir()
    (tmp_path / "s1").mkdir()
    with pytest.raises(TrainingError, match=r"test01.*training shots"):
        next(strips.seam_frames([tmp_path / "test01"]))
    with pytest.raises(TrainingError, match=r"s1.*no plate"):
        next(strips.seam_frames([tmp_path / "s1"]))


def _saying(answer: np.ndarray) -> learned_fill.LearnedFill:
    """A model with this output for any input."""

    def model(strips: np.ndarray) -> np.ndarray:
        missing = [(0, a - b) for a, b in zip(strips.shape[1:3], answer.shape[:2])]
        return np.pad(answer, (*missing, (0, 0)))[None]

    return model


def test_torch_and_numpy_mix_the_same(laid: list[strips.StraightenedFrame]) -> None:
    scene = laid[0].scene
    known = banks.sources(scene.light_TSC, scene.hole_TS)
    rng = np.random.default_rng(2)
    own_TS = scene.ribbon.own_TS
    answer = rng.standard_normal((*own_TS.shape, learned_fill.N_ANSWERS)).astype(np.float32)
    rows, before, n_rows = learned_fill.rows_of(own_TS)
    shown = np.pad(answer[rows], ((before, n_rows - before - (rows.stop - rows.start)), (0, 0), (0, 0)))
    painted = learned_fill.repaint(known, scene.ribbon, scene.hole_TS, scene.floor, _saying(shown))
    numpy_light = painted[..., :3] + painted[..., 3:] * scene.light_TSC
    fields = np.stack([field.transpose(0, 2, 1) for field in (known.own, known.face, known.banks)])
    answer[..., 3:] *= learned_fill.OFFSETS
    torch_light = task.mix_light(torch.from_numpy(answer)[None], torch.from_numpy(fields)[None])[0].numpy()
    assert np.allclose(numpy_light[own_TS], torch_light[own_TS], atol=1e-4)
    assert np.array_equal(numpy_light[~own_TS], scene.light_TSC[~own_TS])


def test_hard_seams_are_drawn_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "seam_frames", lambda folders: iter(_views(3)))
    drawn: list[str] = []
    for name in ("add_rim", "add_contour", "add_gleams"):
        add = getattr(burnt_seams, name)
        monkeypatch.setattr(strips, name, lambda view, rng, name=name, add=add: drawn.append(name) or add(view, rng))
    plain = strips.strips_of([], np.random.default_rng(7), strips.StripLooks(1, 1))
    assert drawn == []
    hard = strips.strips_of([], np.random.default_rng(7), strips.StripLooks(1, 1, hard=1.0))
    assert drawn == ["add_rim", "add_gleams"] * 6
    drawn.clear()
    strips.strips_of([], np.random.default_rng(7), strips.StripLooks(1, 1, hard=1.0, contours=1.0))
    assert drawn == ["add_rim", "add_contour", "add_gleams"] * 6
    assert len(hard) != len(plain) or not np.array_equal(hard["light"], plain["light"])
    with pytest.raises(UsageError, match=r"hard 1\.5: wanted 0 to 1"):
        override(task.FillConfig(), ["hard=1.5"])
    with pytest.raises(UsageError, match=r"contours 1\.5: wanted 0 to 1"):
        override(task.FillConfig(), ["contours=1.5"])


def test_curves_astray_lie_off_their_seams_in_mattes_that_cover_them() -> None:
    """A seam's middle is a row or two from the strip's middle row else."""

    def off_and_covered(astray_px: float) -> tuple[float, float]:
        rng, off, covered = np.random.default_rng(3), [], []
        for view in _views(12, seed=5):
            one = strips.straighten_view(view, rng, 1.0, astray_px)
            assert one is not None
            damage = np.abs(one.scene.light_TSC - one.true_TSC).sum(2) * (one.scene.ribbon.line.half_S > 0)
            row = np.abs(np.arange(len(damage)) - len(damage) // 2) * one.scene.ribbon.step
            off.append(float((damage.sum(1) * row).sum() / damage.sum()))
            covered.append(float((damage * one.scene.hole_TS).sum() / damage.sum()))
        return float(np.median(off)), float(np.median(covered))

    (near, _), (far, covered) = off_and_covered(0.0), off_and_covered(6.0)
    assert far > near + 1.0
    assert covered > 0.8


def _strips(laid: list[strips.StraightenedFrame]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.array([record for one in laid for record in strips.cut_frame(one, rng)], strips.STRIP)


def test_strips_have_one_size_and_the_true_light_in_the_matte(laid: list[strips.StraightenedFrame]) -> None:
    cut = _strips(laid)
    n = len(cut)
    assert cut["strip"].shape == (n, strips.ROWS, strips.COLUMNS, learned_fill.N_CHANNELS)
    assert cut["light"].shape == (n, 4, strips.ROWS, strips.COLUMNS, 3)
    outside = ~cut["wanted"] & (cut["strip"][..., 6] == 0)
    apart = np.abs(cut["light"][:, 0].astype(np.float32) - cut["light"][:, 3])[outside]
    assert np.median(apart) < 0.01


def test_strips_are_the_same_in_several_processes_and_stop_between_shots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_looks(tmp_path, 31, poses=1, looks=3)
    shots = sorted(tmp_path.glob("*_*"))
    looks = strips.StripLooks(1, 1)
    strips.cut_strips(tmp_path / "one.bin", shots, 3, looks)
    monkeypatch.setattr(strips, "n_cores", lambda: 2)
    monkeypatch.setattr(strips, "_SHOTS_EACH", 1)
    strips.cut_strips(tmp_path / "two.bin", shots, 3, looks)
    one = strips.load_strips(tmp_path / "one.bin")
    assert len(one) > 3
    assert (tmp_path / "one.bin").read_bytes() == (tmp_path / "two.bin").read_bytes()
    of_each = [strips.strips_of([shot], np.random.default_rng((3, k)), looks) for k, shot in enumerate(shots)]
    assert one.tobytes() == np.concatenate(of_each).tobytes()

    def stop() -> None:
        raise CancelledError("stopped")

    with pytest.raises(CancelledError):
        strips.cut_strips(tmp_path / "three.bin", shots, 3, looks, stop)
    assert sorted(path.name for path in tmp_path.glob("*.bin*")) == ["one.bin", "two.bin"]
    with pytest.raises(TrainingError, match="no seams in those shots"):
        strips.cut_strips(tmp_path / "three.bin", [], 3, looks)


def test_strips_are_cut_anew_for_other_looks_and_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[strips.StripLooks] = []

    def cut(path: Path, shots: object, seed: int, looks: strips.StripLooks, check: object) -> None:
        cuts.append(looks)
        np.zeros(len(cuts), strips.STRIP).tofile(path)
        if len(cuts) == 3:
            raise CancelledError("stopped before the facts are written")

    monkeypatch.setattr(task, "cut_strips", cut)
    one, two = strips.StripLooks(1, 1), strips.StripLooks(2, 1)

    def read(looks: strips.StripLooks) -> int:
        return len(task._cached_strips(tmp_path / "strips.bin", [tmp_path], 1, looks, lambda: None))

    assert [read(one), read(one), read(two)] == [1, 1, 2]
    with pytest.raises(CancelledError):
        read(one)
    assert [read(two), read(two)] == [4, 4]  # the file of the stopped cut does not count
    monkeypatch.setattr(task, "STRIPS_VERSION", strips.STRIPS_VERSION + 1)
    assert read(two) == 5
    assert cuts == [one, two, one, two, two]


def test_an_untrained_network_returns_nearly_the_joined_face(laid: list[strips.StraightenedFrame]) -> None:
    torch.manual_seed(0)
    cut, untrained = _strips(laid), task.FillNet().eval()
    lit = torch.from_numpy(cut["light"].astype(np.float32))
    with torch.no_grad():
        got = task.mix_light(untrained(torch.from_numpy(cut["strip"].astype(np.float32))), lit[:, :3])
    apart = float((got - lit[:, 1]).abs()[torch.from_numpy(cut["wanted"])].mean())
    assert apart < 0.1  # log light: the other sources have 9 % at first, and offsets are small
    found = task.fill_figures(untrained, cut)
    assert found["strips"] == len(cut)


def test_the_truth_has_no_error_and_a_line_costs_more_than_noise(
    laid: list[strips.StraightenedFrame],
) -> None:
    cut = _strips(laid)
    lit, wanted = torch.from_numpy(cut["light"].astype(np.float32)), torch.from_numpy(cut["wanted"])
    assert not task.fill_loss(lit[:, 3], lit, wanted).any()
    along = torch.zeros_like(lit[:, 3])
    along[:, 20] = 0.05
    signs = np.random.default_rng(0).choice([-1.0, 1.0], along.shape[2]).astype(np.float32)
    strewn = along * torch.from_numpy(signs)[None, None, :, None]
    every = torch.ones_like(wanted)
    assert (task.fill_loss(lit[:, 3] + along, lit, every) > 1.2 * task.fill_loss(lit[:, 3] + strewn, lit, every)).all()
    line, spread = torch.zeros_like(lit[:, 3]), torch.zeros_like(lit[:, 3])
    line[:, ::4] = 0.02
    spread[:] = 0.01  # a quarter of the rows have twice the error: the same mean square
    assert (task.fill_loss(lit[:, 3] + line, lit, every) > task.fill_loss(lit[:, 3] + spread, lit, every)).all()


def test_a_spot_costs_as_much_beside_a_black_groove_as_beside_a_hairline(
    laid: list[strips.StraightenedFrame],
) -> None:
    lit = torch.from_numpy(_strips(laid)["light"][:1].astype(np.float32))
    every = torch.ones(1, *lit.shape[2:4], dtype=torch.bool)
    lit[:, 0] = lit[:, 3] - 0.02
    black = lit.clone()
    black[:, 0] -= 2.0
    spot, strewn = torch.zeros_like(lit[:, 3]), torch.zeros_like(lit[:, 3])
    spot[:, 10:14, 40:44] = 0.2
    strewn[:, ::8, ::8] = 0.2 * (16 / strewn[:, ::8, ::8, 0].numel()) ** 0.5

    def cost(given: torch.Tensor, apart: torch.Tensor) -> float:
        weighed, plain = (float(task.fill_loss(given[:, 3] + apart, given, every, 0.0, w)[0]) for w in (1.0, 0.0))
        return weighed - plain

    assert cost(lit, spot) == pytest.approx(cost(black, spot), rel=1e-3)
    assert cost(lit, spot) > 5.0 * cost(lit, strewn) > 0.0


def test_a_turned_batch_is_the_same_seam_seen_another_way(laid: list[strips.StraightenedFrame]) -> None:
    given = _strips(laid)[:4]
    lit, wanted = torch.from_numpy(given["light"].astype(np.float32)), torch.from_numpy(given["wanted"])
    before = task.fill_loss(lit[:, 1], lit, wanted)
    kinds = set()
    for seed in range(6):
        strip, other, where = task.flip_strips(given, np.random.default_rng(seed))
        assert torch.allclose(task.fill_loss(other[:, 1], other, where), before, rtol=1e-4)
        assert torch.allclose(strip[..., :3] + (other[:, 2] - other[:, 0]), torch.zeros(1), atol=0.02)
        kinds.add(float(strip[0, 0, 0, 0]))
    assert len(kinds) > 2


def test_training_moves_the_network_and_another_starts_from_its_file(
    laid: list[strips.StraightenedFrame], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    cut, config = _strips(laid), task.FillConfig(minutes=None, steps=2, batch=4)
    fill = task.FillTask(config, task.FillNet(), cut, cut)
    before = fill.net.answer.weight.detach().clone()
    trained = Trainer(config, fill, tmp_path).fit()
    assert not torch.equal(trained.net.answer.weight, before)
    assert np.isfinite(fill.metrics(trained.net)["learned"])
    assert fill.export(trained.net, tmp_path / "fill.onnx") < 1e-3
    again, strip = task.FillNet(), torch.randn(2, 32, 48, learned_fill.N_CHANNELS)
    task.load_fill(again, tmp_path / "fill.onnx")
    with torch.no_grad():
        wanted = trained.net.eval()(strip)
        assert torch.allclose(wanted, again.eval()(strip), atol=1e-4)
        assert torch.allclose(wanted, again.train()(strip), atol=1e-4)  # its batch norms stay unchanged


def test_shots_marked_val_are_held_out(tmp_path: Path) -> None:
    def shot(name: str) -> Path:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "truth.roto.json").write_text("{}")
        return tmp_path / name

    made = [shot(name) for name in ("SHOTS/a", "SHOTS/b", "VAL/a")]
    assert task.split_shots([tmp_path / "SHOTS", tmp_path / "VAL"]) == (made[:2], made[2:])
    assert task.split_shots([tmp_path / "SHOTS"]) == (made[:1], made[1:2])
    with pytest.raises(TrainingError, match="no shots to train and validate on"):
        task.split_shots([made[0]])


def test_training_starts_from_no_file_of_another_kind(tmp_path: Path) -> None:
    _write_fill(tmp_path / "other.onnx")
    with pytest.raises(TrainingError, match=r"other\.onnx.*has no weights"):
        task.load_fill(task.FillNet(), tmp_path / "other.onnx")


def test_what_is_left_is_a_share_of_the_damage_where_it_shows() -> None:
    damage = torch.zeros(3, 8, 48, 3)
    damage[:, 2:6] = -0.2
    wanted = torch.zeros(3, 8, 48, dtype=torch.bool)
    wanted[:, 2:6] = True
    apart = damage * torch.tensor([0.0, 0.55, 1.05])[:, None, None, None]
    assert task.seam_left(apart, damage, wanted).tolist() == pytest.approx([0.0, 0.425, 0.925], abs=1e-5)
    assert task.seam_left(-apart, damage, wanted).tolist() == pytest.approx([0.0] * 3)
    assert task.seam_left(0.1 * apart, 0.1 * damage, wanted).tolist() == pytest.approx([0.0] * 3)  # invisible


def test_contrast_is_against_the_banks_which_stay(laid: list[strips.StraightenedFrame]) -> None:
    given = _strips(laid)[:4]
    strip, lit = (torch.from_numpy(given[name].astype(np.float32)) for name in ("strip", "light"))
    made, light = task.vary_contrast(strip, lit, np.random.default_rng(3))
    same = [channel for channel in range(learned_fill.N_CHANNELS) if channel not in learned_fill.AGAINST_BANKS]
    assert torch.equal(made[..., same], strip[..., same])
    assert torch.equal(light[:, 2], lit[:, 2])
    times = (made[..., :3].pow(2).sum((1, 2, 3)) / strip[..., :3].pow(2).sum((1, 2, 3))).sqrt()
    assert times.std() > 0.05
    own = lit[:, 2] + times[:, None, None, None] * (lit[:, 0] - lit[:, 2])
    assert torch.allclose(light[:, 0], own, atol=1e-4)
    assert torch.allclose(made[..., 9], times[:, None, None] * strip[..., 9], atol=1e-4)


def test_a_trained_fill_is_put_into_a_pack_and_hashed_on_the_card(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    shutil.copytree(find_pack(None), pack)
    find_network("fill")

    def write(path: Path) -> float:
        _write_fill(path)
        return 1e-4

    (tmp_path / "pack.fill.run").mkdir()
    options = TrainOptions(["SHOTS"], pack, "fill", command="teach me")
    deliver(options, NETWORKS["fill"], options.folder("fill"), write, {"command": "teach me", "steps": 5})
    loaded = load_pack(pack)
    assert loaded.card["training"]["fill"] == {"command": "teach me", "steps": 5, "parity": 1e-4}
    assert loaded.card["training"]["recipe"] == load_pack(None).card["training"]["recipe"]
    fill = open_fill(loaded)
    assert fill is not None
    answer = fill(np.ones((1, 8, 12, learned_fill.N_CHANNELS), np.float32))
    assert answer.shape == (1, 8, 12, learned_fill.N_ANSWERS)
    assert answer == pytest.approx(learned_fill.N_CHANNELS)


def _write_fill(path: Path) -> None:
    """A graph with a fill's names and sizes, without training: one matrix product."""
    sizes = ["N", "T", "S"]
    given = onnx.helper.make_tensor_value_info("strip", onnx.TensorProto.FLOAT, [*sizes, learned_fill.N_CHANNELS])
    made = onnx.helper.make_tensor_value_info("answer", onnx.TensorProto.FLOAT, [*sizes, learned_fill.N_ANSWERS])
    weights = np.ones((learned_fill.N_CHANNELS, learned_fill.N_ANSWERS), np.float32)
    node = onnx.helper.make_node("MatMul", ["strip", "w"], ["answer"])
    graph = onnx.helper.make_graph([node], "fill", [given], [made], [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path)


def test_older_recipes_count_synthetic_seams_by_their_old_name() -> None:
    assert override(task.FillConfig(), ["made_up=5"]).synthetic == 5
    assert override(task.FillConfig(), ["synthetic=5"]).synthetic == 5


def test_a_share_of_the_first_weights_is_kept(tmp_path: Path, laid: list[strips.StraightenedFrame]) -> None:
    cut = _strips(laid)
    first, half, own = load_pack(None).fill_path, tmp_path / "half.onnx", tmp_path / "own.onnx"
    config = override(task.FillConfig(), [f"start={first}", "kept=0.5"])
    net = task.FillNet()
    assert first is not None
    task.load_fill(net, first)
    mixed, whole = (task.FillTask(each, net, cut, cut) for each in (config, task.FillConfig()))
    with torch.no_grad():
        assert net.answer.bias is not None
        net.answer.bias += 2.0
    mixed.export(net, half)
    whole.export(net, own)
    at_first, at_half, at_end = (_answer_of(path) for path in (first, half, own))
    np.testing.assert_allclose(at_half, (at_first + at_end) / 2, atol=1e-4)
    assert np.abs(at_end - at_first).max() > 1.0
    with pytest.raises(UsageError, match=r"kept 0\.5: wanted start=FILL\.onnx"):
        override(task.FillConfig(), ["kept=0.5"])


def _answer_of(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    strip = np.random.default_rng(0).standard_normal((1, 32, 64, learned_fill.N_CHANNELS)).astype(np.float32)
    return np.asarray(session.run(None, {"strip": strip})[0])
