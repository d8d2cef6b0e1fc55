"""Class maps: what the values are is said, synonyms share a class, and pixels lie where they lay."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models.errors import StudioError
from models.geometry import ImageGeometry
from models.segmentation import Cosine, Softmax, class_maps, phrase_maps, to_original, upsample
from models.text_classifier import TextClassifier


@pytest.fixture
def classifier() -> TextClassifier:
    embeddings = F.normalize(torch.randn(4, 6, generator=torch.Generator().manual_seed(1)), dim=-1)
    return TextClassifier(("cat", "dog", "key"), ("cat", "dog", "puppy", "key"), (0, 1, 1, 2), embeddings)


@pytest.fixture
def features() -> Tensor:
    return F.normalize(torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(2)), dim=-1)


def test_cosines_are_taken_with_every_phrase_and_a_class_has_its_nearest(
    features: Tensor, classifier: TextClassifier
) -> None:
    phrases = phrase_maps(features, classifier)
    maps = class_maps(phrases, classifier)
    assert phrases.shape == (2, 4, 3, 5)
    assert maps.values.shape == (2, 3, 3, 5)
    assert maps.score == Cosine()
    cosine = [float(features[1, 2, 3] @ classifier.embeddings[phrase]) for phrase in range(4)]
    assert phrases[1, :, 2, 3].tolist() == pytest.approx(cosine, abs=1e-6)
    assert maps.values[1, :, 2, 3].tolist() == pytest.approx([cosine[0], max(cosine[1:3]), cosine[3]], abs=1e-6)


def test_a_softmax_runs_over_phrases_and_a_class_has_its_likeliest(
    features: Tensor, classifier: TextClassifier
) -> None:
    phrases = phrase_maps(features, classifier)
    maps = class_maps(phrases, classifier, Softmax(50.0))
    assert maps.score == Softmax(50.0)
    share = np.exp(50.0 * phrases[0, :, 1, 4].double().numpy())
    share /= share.sum()
    wanted = [share[0], max(share[1], share[2]), share[3]]
    assert maps.values[0, :, 1, 4].tolist() == pytest.approx(wanted, abs=1e-5)
    assert bool((maps.values.sum(1) <= 1 + 1e-6).all())


def test_one_class_alone_gets_cosine_and_says_so(features: Tensor, classifier: TextClassifier) -> None:
    single = TextClassifier(("dog",), ("dog", "puppy"), (0, 0), classifier.embeddings[1:3])
    maps = class_maps(phrase_maps(features, single), single, Softmax(40.0))
    assert maps.score == Cosine()
    assert torch.equal(maps.values, class_maps(phrase_maps(features, single), single).values)
    assert float(maps.values.std()) > 0.1


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises(StudioError, match="above 0"):
        Softmax(scale)


def test_an_uncropped_picture_gets_what_its_input_gets() -> None:
    maps = torch.randn(1, 2, 4, 6)
    geometry = ImageGeometry((32, 48), (32, 48), (0, 0), (32, 48))
    torch.testing.assert_close(to_original(maps, geometry), upsample(maps, (32, 48)), atol=1e-5, rtol=1e-5)


def test_pixels_that_the_crop_cut_off_are_nan_and_the_rest_is_where_the_nearest_patch_says() -> None:
    # 30 x 60 original, resized to 40 x 80, centre crop of 40 x 40: columns 15 to 45 were seen.
    geometry = ImageGeometry((30, 60), (40, 80), (0, 20), (40, 40))
    maps = torch.arange(16.0).view(1, 1, 4, 4)
    full = to_original(maps, geometry)[0, 0]
    assert full.shape == (30, 60)
    nearest = torch.from_numpy(geometry.to_original(maps[0, 0].numpy()))
    assert torch.equal(full.isnan(), nearest.isnan())
    assert torch.equal(full.isnan().all(0), torch.tensor([not 15 <= col < 45 for col in range(60)]))
    # A ramp stays a ramp: bilinear between patch centres is the line itself.
    rows, cols = torch.arange(4, 26), torch.arange(19, 41)
    line = 4 * ((rows + 0.5) / 30 * 4 - 0.5)[:, None] + ((cols + 0.5 - 15) / 30 * 4 - 0.5)
    torch.testing.assert_close(full[4:26, 19:41], line, atol=1e-5, rtol=1e-5)


def test_the_unseen_stays_nan_in_every_class(classifier: TextClassifier) -> None:
    phrases = torch.randn(1, 4, 2, 2)
    phrases[..., 0, 0] = float("nan")
    for score in (Cosine(), Softmax(10.0)):
        values = class_maps(phrases, classifier, score).values
        assert bool(values[..., 0, 0].isnan().all())
        assert not bool(values[..., 1, :].isnan().any())
