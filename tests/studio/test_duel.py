"""The duel of maps: orders, curves and areas against what the model gives when patches are really put aside."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from families import randomised, siglip, with_trunk

from models import LoadedModel, StudioError, attention_maps, record
from models.towers import text_tower, vision_tower
from studio.attribution import drained
from studio.chart_plotly import plot_figure
from studio.duel import (
    DIFFERENCE,
    ORDERS,
    RANDOM,
    SEEDS,
    SHUFFLED,
    Depth,
    Side,
    area,
    duel,
    orderings,
    passes_of_duel,
    ranked,
    shuffled_orderings,
)
from studio.duel_figure import areas_table, duel_chart
from studio.service import Look, Service
from studio.similarity import bare_picture, of_pixels, pair_of
from studio.upload import Upload

TEXT = "a photo of a cat"


@pytest.fixture
def looks(service: Service, scene: Upload) -> tuple[Look, Look]:
    return service.look("clip-scenes", scene.image), service.look("diffclip-scenes", scene.image)


def fought(look: Look, scene: Upload, depth: Depth = "last layer", points: int = 4) -> tuple[Side, int]:
    results: list[Side] = []
    pixels = look.model.preprocess(scene.image)[0]
    made = sum(drained(duel(look, pixels, TEXT, depth, "mean colour", points), results))
    return results[0], made


def test_each_model_is_judged_by_its_own_maps_and_costs_what_was_said(looks: tuple[Look, Look], scene: Upload) -> None:
    named = (["A", "relevance"], ["A1", "A1 − λA2", SHUFFLED, "relevance"])
    for look, maps, orders in zip(looks, named, ORDERS, strict=True):
        side, made = fought(look, scene)
        assert [curves.name for curves in side.curves] == [*maps, RANDOM]
        assert made == side.passes == passes_of_duel(orders, 4)
    assert "has one map, A" in fought(looks[0], scene)[0].skipped[0]


def test_curves_begin_and_end_at_the_whole_and_the_bare_picture(looks: tuple[Look, Look], scene: Upload) -> None:
    for look in looks:
        pair = pair_of(look.model, look.model.preprocess(scene.image)[0], TEXT, look.embedding)
        bare = float(of_pixels(pair)(bare_picture(pair, "mean colour")))
        side, _ = fought(look, scene)
        assert (side.cosine, side.bare) == pytest.approx((pair.cosine, bare), abs=1e-5)
        for curves in side.curves:
            assert (curves.deletion[0], curves.deletion[-1]) == pytest.approx((pair.cosine, bare), abs=1e-5)
            assert (curves.insertion[0], curves.insertion[-1]) == pytest.approx((bare, pair.cosine), abs=1e-5)


def test_a_step_is_the_similarity_of_the_picture_with_these_patches_gone(
    looks: tuple[Look, Look], scene: Upload
) -> None:
    look = looks[1]
    pair = pair_of(look.model, look.model.preprocess(scene.image)[0], TEXT, look.embedding)
    order = ranked(orderings(pair, look, "last layer")[0]["A1 − λA2"])
    bare = bare_picture(pair, "mean colour")
    gone, kept = pair.pixels.clone(), bare.clone()
    for patch in order[:8]:
        top, left = 8 * (patch // 4), 8 * (patch % 4)
        place = (..., slice(top, top + 8), slice(left, left + 8))
        gone[place], kept[place] = bare[place], pair.pixels[place]
    curves = fought(look, scene)[0].curves[1]
    assert curves.name == "A1 − λA2"
    assert curves.deletion[2] == pytest.approx(float(of_pixels(pair)(gone)), abs=1e-5)
    assert curves.insertion[2] == pytest.approx(float(of_pixels(pair)(kept)), abs=1e-5)


@pytest.mark.parametrize("depth", ["last layer", "mean over layers"])
def test_attention_maps_are_the_cls_rows_mean_over_heads(looks: tuple[Look, Look], scene: Upload, depth: Depth) -> None:
    look = looks[1]
    pair = pair_of(look.model, look.model.preprocess(scene.image)[0], TEXT, look.embedding)
    maps, _ = orderings(pair, look, depth)
    chosen = [2] if depth == "last layer" else [0, 1, 2]
    rows = [attention_maps(look.recording[layer]).weights[0].mean(0)[0, 1:] for layer in chosen]
    assert np.allclose(maps["A1 − λA2"], torch.stack(rows).mean(0), atol=1e-6)


@pytest.mark.parametrize("depth", ["last layer", "mean over layers"])
def test_a_difference_stands_beside_the_same_one_with_a2_shuffled_over_the_patches(
    looks: tuple[Look, Look], scene: Upload, depth: Depth
) -> None:
    look = looks[1]
    made, again = shuffled_orderings(look, depth), shuffled_orderings(look, depth)
    assert len(made) == SEEDS == 5
    np.testing.assert_array_equal(made, again)
    layers = [2] if depth == "last layer" else [0, 1, 2]
    maps = [attention_maps(look.recording[layer]) for layer in layers]
    generator = torch.Generator().manual_seed(0)
    for values in made:
        # One order of the patches for all heads and layers; CLS, the first key, stays where it is.
        order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(16, generator=generator)])
        rows = []
        for found in maps:
            assert found.subtracted is not None
            rows.append((found.a1 - found.subtracted[..., order])[0].mean(0)[0, 1:])
        np.testing.assert_allclose(values, torch.stack(rows).mean(0), atol=1e-6)
    assert len({tuple(ranked(values)) for values in made}) == SEEDS
    side, _ = fought(look, scene, depth)
    shuffled = next(curves for curves in side.curves if curves.name == SHUFFLED)
    assert min(shuffled.areas_sd) > 0
    assert (shuffled.deletion[0], shuffled.deletion[-1]) == pytest.approx((side.cosine, side.bare), abs=1e-5)


def test_order_is_signed_and_equal_patches_are_not_taken_from_the_top_left() -> None:
    assert ranked(np.array([-3.0, 0.5, 2.0, -0.1])).tolist() == [2, 1, 3, 0]
    order = ranked(np.zeros(100))
    assert sorted(order) == list(range(100))
    assert abs(order[:50].mean() - 49.5) < 15
    assert order.tolist() != list(range(100))


def test_an_area_is_the_mean_height() -> None:
    assert area(np.array([1.0, 1.0, 1.0])) == 1.0
    assert area(np.array([1.0, 0.0])) == 0.5
    assert area(np.array([0.0, 1.0, 0.0])) == 0.5


def test_random_orders_have_a_spread_and_are_the_same_each_time(looks: tuple[Look, Look], scene: Upload) -> None:
    first, again = (fought(looks[0], scene)[0].curves[-1] for _ in range(2))
    assert SEEDS >= 5
    assert first.areas == again.areas
    assert first.areas_sd[0] > 0
    assert (first.deletion_sd[1:-1] > 0).all()


@pytest.mark.parametrize("points", [0, 3, 41, 10**9])
def test_limits_on_steps_are_told(looks: tuple[Look, Look], scene: Upload, points: int) -> None:
    with pytest.raises(StudioError, match="cannot be drawn: choose 4 to 40"):
        fought(looks[0], scene, points=points)


def test_unknown_layers_and_baselines_are_refused(looks: tuple[Look, Look], scene: Upload) -> None:
    with pytest.raises(StudioError, match="choose last layer or mean over layers"):
        fought(looks[0], scene, depth="first")  # type: ignore[arg-type]
    pixels = looks[0].model.preprocess(scene.image)[0]
    with pytest.raises(StudioError, match="choose mean colour"):
        next(drained(duel(looks[0], pixels, TEXT, baseline="red"), []))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["siglip", "mean", "registers"])
@pytest.mark.parametrize("depth", ["last layer", "mean over layers"])
def test_foreign_towers_have_an_order_of_their_patches(
    clip: LoadedModel, service: Service, scene: Upload, kind: str, depth: Depth
) -> None:
    if kind == "siglip":
        model = siglip(clip)
    else:
        options = {"mean": {"class_token": False, "global_pool": "avg"}, "registers": {"reg_tokens": 3}}[kind]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            module = with_trunk(**options)
            randomised(module)
        model = replace(clip, module=module, vision=vision_tower(module), text=text_tower(module))
    pixels = model.preprocess(scene.image)[0]
    with record(model.vision) as recording:
        model.encode_image(pixels[None])
    look = replace(service.look("clip-scenes", scene.image), model=model, recording=recording)
    ids = torch.tensor([[2, 3, 49, 0, 0, 0, 0, 0, 0, 0]])
    pair = replace(
        pair_of(clip, pixels, TEXT, model.encode_image(pixels[None])),
        model=model,
        ids=ids,
        text=model.encode_text(ids),
    )
    maps, _ = orderings(pair, look, depth)
    assert list(maps) == ["A", "relevance"]
    assert all(values.shape == (16,) and np.ptp(values) > 0 for values in maps.values())


def test_the_table_has_the_random_control_beside_every_area_and_escapes(
    looks: tuple[Look, Look], scene: Upload
) -> None:
    sides = [replace(fought(look, scene)[0], title=f"<i>{look.model.title}") for look in looks]
    page = areas_table(sides, "data:image/png;base64,x", '<img src=x onerror="1">', "a & b")
    assert not re.search(r"[ >]±|±[ <]", page), "a number and its spread can stand on two lines"
    page = page.replace("&nbsp;", " ")
    assert "<i>CLIP" not in page
    assert "&lt;img src=x" in page
    assert page.count('<th scope="row">') == 6
    assert page.count("<i>random ") == 12
    random = sides[0].curves[-1]
    assert f"random {random.areas[0]:.3f} ± {random.areas_sd[0]:.3f}".replace("-", "−") in page
    assert len(re.findall("in both|deletion only|insertion only|[> ]no<", page)) == 7
    shuffled = next(curves for curves in sides[1].curves if curves.name == SHUFFLED)
    row = re.search(rf'<th scope="row">{DIFFERENCE}</th>.*?</tr>', page)
    assert row is not None
    for area_of, sd in zip(shuffled.areas, shuffled.areas_sd, strict=True):
        assert f"<i>A2 shuffled {area_of:.3f} ± {sd:.3f}</i>".replace("-", "−") in row[0]
    assert page.count("<i>A2 shuffled ") == 2
    assert page.count("<i>beyond A2 shuffled: ") == 1


def test_a_difference_is_held_against_a2_shuffled_and_not_only_against_random_orders(
    looks: tuple[Look, Look], scene: Upload
) -> None:
    side, _ = fought(looks[1], scene)
    areas = {DIFFERENCE: (0.1, 0.9), SHUFFLED: (0.1, 0.8), RANDOM: (0.5, 0.5)}
    curves = tuple(replace(each, areas=areas.get(each.name, (0.5, 0.5)), areas_sd=(0.01, 0.01)) for each in side.curves)
    page = areas_table([replace(side, curves=curves)], "data:image/png;base64,x", "", "")
    assert "<td>in both<i>beyond A2 shuffled: insertion only</i></td>" in page


def test_a_text_that_the_bare_picture_is_as_near_to_is_no_text_for_a_duel_and_that_is_said(
    looks: tuple[Look, Look], scene: Upload
) -> None:
    side, _ = fought(looks[1], scene)
    for whole, said in ((0.4, False), (0.3, True), (0.2, True)):
        told = replace(side, cosine=whole, bare=0.3)
        page, notes = areas_table([told], "data:image/png;base64,x", ""), duel_chart([told], "a", "b", "c").notes
        assert ("choose another text or another bare picture" in page) is said
        assert any("DiffCLIP, tiny: the bare picture" in note for note in notes) is said


def test_figures_draw_every_curve_and_a_band_about_random(looks: tuple[Look, Look], scene: Upload) -> None:
    sides = [fought(look, scene)[0] for look in looks]
    figure = plot_figure(duel_chart(sides, "<b>", "last layer", "black").plots[0])
    lines = [trace for trace in figure.data if trace.fill is None]
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert len(lines) == 8
    assert len(bands) == 3
    looks_of = [(line.line.color, line.line.dash) for line in lines]
    assert len(set(looks_of)) == len(lines), "no two curves look alike"
    assert list(lines[0].y) == pytest.approx(sides[0].curves[0].deletion)
    assert list(lines[0].x) == [0, 25, 50, 75, 100]
    assert "<b>" not in figure.layout.title.text
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
