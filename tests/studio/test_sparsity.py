"""Sparsity of tiny models: readouts equal the maps, interventions really run, controls are as sparse as they say."""

from dataclasses import replace

import pytest
import torch

from models import Normalizer, StudioError, attention_maps, localisation
from models.intervention import intervene
from models.statistics import entropy, shuffled_differences, support
from studio.chart_plotly import chart_figure
from studio.measures import SHUFFLES
from studio.service import Look, Service, vision_grid
from studio.sparsity import (
    RULES,
    Asked,
    alpha_for_support,
    layer_support,
    parse_head,
    parse_query,
    read_out,
    rule_edits,
    run_with,
    same_patch,
)
from studio.sparsity_grids import COLUMNS, grids_html, grids_table, support_grids
from studio.sparsity_panels import controls_said, decimal, numbers_of, percent, sparsity_panels
from studio.sparsity_similarity import answers_html, answers_of
from studio.sparsity_sweep import SWEPT, alpha_chart, sweep_alpha
from studio.upload import Upload
from studio.zeroshot import parse_prompts


@pytest.fixture
def looks(service: Service, scene: Upload) -> tuple[Look, Look]:
    left, right = service.names
    return service.look(left, scene.image), service.look(right, scene.image)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_a_subtracted_map_has_the_numbers_of_its_size_whatever_the_sign_of_lambda(
    looks: tuple[Look, Look], alpha: float
) -> None:
    look = looks[1]
    layer = look.recording[1]
    assert layer.lam is not None
    run = read_out(look, Asked(alpha))
    flipped = replace(run, recording={1: replace(layer, lam=-layer.lam)})  # type: ignore[arg-type]
    _, plain, _ = sparsity_panels(run, 1, None, None, look.objects)
    _, added, _ = sparsity_panels(flipped, 1, None, None, look.objects)
    assert (added.values == -plain.values).all()
    assert added.facts == plain.facts
    assert (plain.badges, added.badges) == ((), ("λ < 0: added",))
    assert [fact.label for fact in added.facts] == ["support", "zeros", "entropy", "in object", "AUROC"]


@pytest.mark.parametrize("source", ["qk", "qq", "kk", "qq+kk"])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_a_readout_is_the_map_of_the_unmodified_run(looks: tuple[Look, Look], source: str, alpha: float) -> None:
    for look in looks:
        expected = attention_maps(look.recording[1], tuple(source.split("+")), Normalizer(alpha)).weights
        torch.testing.assert_close(read_out(look, Asked(alpha, source)).maps(1).weights, expected)


def test_an_intervention_runs_the_model_and_leaves_it_as_it_was(looks: tuple[Look, Look], scene: Upload) -> None:
    for look in looks:
        model, asked = look.model, Asked(2.0)
        pixels, _ = model.preprocess(scene.image)
        with model.lock, intervene(model.vision, rule_edits(model.vision, asked, "entmax")):
            expected = model.encode_image(pixels[None], normalize=True)
        run = run_with(look, scene.image, asked)
        torch.testing.assert_close(run.embedding, expected)
        assert not torch.allclose(run.embedding, look.embedding, atol=1e-4)
        torch.testing.assert_close(model.encode_image(pixels[None], normalize=True), look.embedding)


def test_an_intervention_in_one_layer_leaves_the_maps_before_it(looks: tuple[Look, Look], scene: Upload) -> None:
    run = run_with(looks[0], scene.image, Asked(2.0, layers=(1,)))
    for layer, changed in ((0, False), (1, True)):
        plain = attention_maps(looks[0].recording[layer]).weights
        assert torch.allclose(run.maps(layer).weights, plain, atol=1e-6) is not changed
    assert bool((run.maps(1).weights == 0).any())
    assert not bool((run.maps(2).weights == 0).any())


def test_controls_keep_as_many_keys_as_entmax_and_matched_entropy_keeps_all(looks: tuple[Look, Look]) -> None:
    run = read_out(looks[0], Asked(1.5))
    kept = support(run.maps(1, "entmax").a1)
    assert int(kept.min()) < kept.new_tensor(run.maps(1).a1.shape[-1])
    for rule in ("top-k", "random keys"):
        assert torch.equal(support(run.maps(1, rule).a1), kept)
    assert bool((run.maps(1, "identity").a1[0, 0] == torch.eye(17)).all())


def test_the_source_that_a_model_lacks_is_said(looks: tuple[Look, Look]) -> None:
    with pytest.raises(StudioError, match="'vv' is undefined"):
        read_out(looks[1], Asked(1.5, "vv")).maps(0)
    with pytest.raises(StudioError, match="Source 'xx' is unknown"):
        Asked(1.5, "xx")


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_the_alpha_of_a_support_gives_it(looks: tuple[Look, Look], share: float) -> None:
    for look in looks:
        alpha = alpha_for_support(look, Asked(), 1, share)
        found = layer_support(read_out(look, Asked(alpha)), 1)
        steps = [layer_support(read_out(look, Asked(a)), 1) for a in (max(1, alpha - 0.02), min(2, alpha + 0.02))]
        assert steps[1] <= found <= steps[0]
        assert alpha in (1.0, 2.0) or steps[1] - 0.02 <= share <= steps[0] + 0.02


def test_supports_that_no_alpha_reaches_give_the_ends(looks: tuple[Look, Look]) -> None:
    assert alpha_for_support(looks[0], Asked(), 1, 1.0) == 1.0
    assert alpha_for_support(looks[0], Asked(), 1, 0.0) == 2.0


def test_panels_hold_the_row_with_true_zeros_and_its_numbers(looks: tuple[Look, Look]) -> None:
    look = looks[1]
    grid = vision_grid(look.model)
    run = read_out(look, Asked(2.0))
    panels = sparsity_panels(run, 1, 0, (2, 1), look.objects)
    assert [panel.title for panel in panels] == ["A1", "λA2", "A1 − λA2"]
    row = run.maps(1).weights[0, 0, grid.token(2, 1)]
    torch.testing.assert_close(torch.tensor(panels[2].values).flatten(), row[1:] * len(row))
    assert (panels[2].values.flatten() == 0).tolist() == (row[1:] == 0).tolist()
    facts = {fact.label: fact for fact in panels[2].facts}
    assert facts["support"].value == f"{int((row != 0).sum())} of {len(row)}"
    assert (facts["support"].number, facts["zeros"].number) == (
        int((row != 0).sum()), pytest.approx(float((row == 0).float().mean())),
    )  # fmt: skip
    assert panels[2].controls == ("random keys", "A2 shuffled")
    assert all(facts["AUROC, signed"].controls)
    assert panels[2].marked == (2, 1)


def test_at_softmax_nothing_is_left_out_so_there_are_no_random_keys(looks: tuple[Look, Look]) -> None:
    (panel,) = sparsity_panels(read_out(looks[0], Asked(1.0)), 1, None, None, looks[0].objects)
    assert not any(any(fact.controls) for fact in panel.facts)
    assert controls_said([panel]) == ""


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("head", [None, 0])
def test_the_difference_stands_beside_the_same_with_a2_shuffled(
    looks: tuple[Look, Look], alpha: float, head: int | None
) -> None:
    look = looks[1]
    panels = sparsity_panels(read_out(look, Asked(alpha)), 1, head, (2, 1), look.objects)
    maps, token = attention_maps(look.recording[1], "qk", Normalizer(alpha)), vision_grid(look.model).token(2, 1)
    assert maps.subtracted is not None
    assert look.objects is not None
    expected = []
    for shuffled in shuffled_differences(maps.a1, maps.subtracted, 1, SHUFFLES):
        row = shuffled[0, :, token].mean(0) if head is None else shuffled[0, head, token]
        mass = localisation.mass_inside(row.clamp(min=0)[1:], look.objects.inside)
        expected.append((mass, entropy(row.clamp(min=0)), support(row)))
    inside, spread, kept = torch.tensor(expected).mean(0).tolist()
    facts = {fact.label: fact for fact in panels[2].facts}
    assert facts["support"].numbers[1] == pytest.approx(kept)
    assert facts["zeros"].numbers[1] == pytest.approx(1 - kept / maps.a1.shape[-1])
    assert facts["in object, positive"].controls[1] == percent(inside)
    assert facts["entropy, positive"].controls[1] == decimal(spread)
    assert any(fact.controls[1] != fact.value for fact in facts.values() if fact.controls), "nothing was shuffled"
    assert {fact.controls[1] for panel in panels[:2] for fact in panel.facts if fact.controls} == {""}
    assert ("“random keys”" in controls_said(panels)) is (alpha > 1)
    assert "mean of 20 fixed shuffles" in controls_said(panels)


def test_numbers_of_a_signed_row_take_its_positive_part() -> None:
    numbers = numbers_of(torch.tensor([0.0, 2.0, 2.0, -1.0, 0.0]), 1, None)
    assert (numbers.support, numbers.zeros) == (3, pytest.approx(0.4))
    assert numbers.entropy == pytest.approx(torch.log(torch.tensor(2.0)).item() / torch.log(torch.tensor(5.0)).item())


def test_grids_hold_the_mean_over_queries_of_each_head(looks: tuple[Look, Look]) -> None:
    run = read_out(looks[1], Asked(1.5))
    grids = support_grids(run)
    assert [grid.title for grid in grids] == ["A1", "A2", "A1 − λA2"]
    expected = support(run.maps(2).a1)[0].float().mean(-1)
    torch.testing.assert_close(grids[0].support[2, 1:], expected)
    torch.testing.assert_close(grids[0].support[2, 0], expected.mean())
    assert [grid.shuffled is not None for grid in grids] == [False, False, True]
    text = grids_html([replace(grids[0], of="<b>x</b>")], "<i>")
    assert "<b>x</b>" not in text
    assert "<i>" not in text.split("sg-ramp")[0]


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_support_of_the_difference_stands_beside_the_same_with_a2_shuffled(
    looks: tuple[Look, Look], alpha: float
) -> None:
    run = read_out(looks[1], Asked(alpha))
    *_, grid = support_grids(run)
    maps, prefix = run.maps(2), vision_grid(looks[1].model).prefix
    assert maps.subtracted is not None
    assert grid.shuffled is not None
    shuffled = torch.stack(list(shuffled_differences(maps.a1, maps.subtracted, prefix, 4)))
    wanted = (shuffled != 0).float().sum(-1).mean((0, 1, 3))
    torch.testing.assert_close(grid.shuffled[2, 1:], wanted)
    torch.testing.assert_close(grid.shuffled[2, 0], wanted.mean())
    text = grids_html([grid], "")
    assert f'<small class="sg-control">{float(wanted[0]):.{0 if wanted[0] >= 10 else 1}f}</small>' in text
    assert "with A2 permuted over the patches, the mean of 4 fixed shuffles" in text
    assert (grid.shuffled == maps.a1.shape[-1]).all() == (alpha == 1), "softmax leaves nothing out, shuffled or not"
    assert "permuted" not in grids_html(support_grids(read_out(looks[0], Asked(alpha))), "")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in grids_table([grid]).rows]
    assert len(rows) == 2 * grid.support.numel()
    own = [row for row in rows if (row["layer"], row["head"]) == ("2", "0")]
    assert [row["measure"] for row in own] == ["support", "zeros"]
    assert own[0]["value"] == pytest.approx(float(grid.support[2, 1]))
    assert own[0]["control"] == pytest.approx(float(wanted[0]))
    assert own[1]["control"] == pytest.approx(1 - float(wanted[0]) / maps.a1.shape[-1])
    assert {row["control_is"] for row in rows} == {"A2 shuffled"}


def test_answers_begin_with_the_model_as_it_is_and_name_each_rule(looks: tuple[Look, Look], scene: Upload) -> None:
    prompts = parse_prompts("a cat\n<b>dog</b>", "")
    steps = list(answers_of(looks[0], scene.image, prompts, Asked(1.5), RULES))
    assert [len(step.runs) for step in steps] == [1, 2, 3, 4, 5, 6]
    texts = looks[0].model.encode_text(looks[0].model.tokenize(["a cat", "<b>dog</b>"]), normalize=True)
    assert steps[-1].runs[0].cosine == pytest.approx((texts @ looks[0].embedding[0]).tolist())
    assert len({run.cosine for run in steps[-1].runs}) == len(RULES)
    assert "<b>dog" not in answers_html(prompts, [steps[-1]], "")


def test_the_sweep_of_a_difference_has_a_curve_with_a2_shuffled(looks: tuple[Look, Look]) -> None:
    look = looks[1]
    *_, curves = sweep_alpha(look, "qk", 1, 0, (2, 1), look.objects, alphas=(1.0, 2.0))
    assert set(curves.numbers) == {*SWEPT, "A2 shuffled"}
    for alpha, inside in zip(curves.alphas, curves.line("A2 shuffled", "inside"), strict=True):
        panel = sparsity_panels(read_out(look, Asked(alpha)), 1, 0, (2, 1), look.objects)[2]
        facts = {fact.label: fact for fact in panel.facts}
        assert facts["in object, positive"].controls[1] == percent(inside)
    assert curves.line("A2 shuffled", "entropy") != curves.line("entmax", "entropy")
    assert "DiffCLIP, tiny: A2 shuffled" in {trace.name for trace in chart_figure(alpha_chart([curves], [])).data}
    *_, plain = sweep_alpha(looks[0], "qk", 1, 0, (2, 1), None, alphas=(1.0,))
    assert set(plain.numbers) == set(SWEPT)


@pytest.mark.parametrize("patch", [(2, 1), None])
def test_the_sweep_holds_entmax_against_the_random_keys_that_stand_below_the_maps(
    looks: tuple[Look, Look], patch: tuple[int, int] | None
) -> None:
    for look, panel in zip(looks, (0, 2), strict=True):
        *_, curves = sweep_alpha(look, "qk", 1, None, patch, look.objects, alphas=(1.5, 2.0))
        for step, alpha in enumerate(curves.alphas):
            panels = sparsity_panels(read_out(look, Asked(alpha)), 1, None, patch, look.objects)
            numbers = {fact.label.partition(",")[0]: fact.numbers[0] for fact in panels[panel].facts}
            swept = curves.numbers["random keys"][step]
            found = [swept.support, swept.zeros, swept.entropy, swept.inside, swept.auroc]
            assert found == pytest.approx(list(numbers.values()))


def test_the_sweep_begins_at_softmax_for_every_rule_and_falls_in_support(looks: tuple[Look, Look]) -> None:
    look = looks[0]
    *_, curves = sweep_alpha(look, "qk", 1, None, None, look.objects, alphas=(1.0, 1.5, 2.0))
    assert len({curves.numbers[rule][0] for rule in SWEPT}) == 1
    supports = curves.line("entmax", "support")
    assert supports[0] == 1.0 >= supports[1] >= supports[2]
    assert curves.line("entmax", "zeros") == pytest.approx([1 - value for value in supports])
    assert {len(trace.x) for trace in chart_figure(alpha_chart([curves], [])).data} == {3}


@pytest.mark.parametrize(("text", "patch"), [("CLS", None), ("", None), ("3, 2", (3, 2)), ("(0,1)", (0, 1))])
def test_a_query_is_cls_or_a_patch(text: str, patch: tuple[int, int] | None) -> None:
    assert parse_query(text) == patch


@pytest.mark.parametrize("text", ["x", "1", "1, 2, 3", "-1, 2", "1.5, 2", "99999, 0"])
def test_what_is_no_query_gets_a_sentence(text: str) -> None:
    with pytest.raises(StudioError, match="is no patch"):
        parse_query(text)


def test_heads_and_patches_that_do_not_exist_are_refused(looks: tuple[Look, Look]) -> None:
    assert parse_head("mean", looks[0].model) is None
    assert parse_head("1", looks[1].model) == 1
    with pytest.raises(StudioError, match="has no head"):
        parse_head("99", looks[0].model)
    with pytest.raises(StudioError, match="outside"):
        same_patch((99, 0), looks[0], looks[1])
    assert same_patch((1, 2), looks[0], looks[1]) == (1, 2)
