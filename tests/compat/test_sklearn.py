"""The transformer: what scikit-learn asks of one, and values that are those of the sketch."""

import doctest
import sys
from importlib import import_module

import numpy as np
import pytest

import gpulsh

TEXTS = ["one two three four five six", "One, two; three four five six!", "something else altogether, said twice"]
EVERY = [
    gpulsh.MinHash(num_perm=64),
    gpulsh.OnePermutation(num_perm=64),
    gpulsh.MinHash(num_perm=64, family="affine61"),
    gpulsh.SimHash(bits=128),
]


@pytest.fixture(scope="module")
def vectorizer() -> type:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from gpulsh.compat.sklearn import SketchVectorizer

    return SketchVectorizer


def test_without_scikit_learn_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gpulsh.compat.sklearn", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"^gpulsh\.compat\.sklearn needs scikit-learn: pip install scikit-learn$"):
        import_module("gpulsh.compat.sklearn")


def test_its_examples_hold(vectorizer: type) -> None:
    failed, tried = doctest.testmod(sys.modules[vectorizer.__module__])
    assert (failed, tried) == (0, 2)


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_what_scikit_learn_asks_of_an_estimator(vectorizer: type) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    told = check_estimator(vectorizer(backend="cpu"), on_fail="raise")
    assert told and {row["status"] for row in told} <= {"passed", "skipped"}


@pytest.mark.parametrize("sketch", EVERY)
def test_columns_that_differ_are_the_estimated_distance(vectorizer: type, sketch: gpulsh.MinHash) -> None:
    from sklearn.base import clone

    made = clone(vectorizer(sketch, shingling="char:4", backend="cpu")).fit(TEXTS)
    rows = made.transform(TEXTS)
    sketched = sketch.from_texts(TEXTS, shingling="char:4", backend="cpu")
    estimated = sketch.estimate(sketched, [[0, 1], [0, 2]], backend="cpu")
    apart = (rows[[0, 0]] != rows[[1, 2]]).mean(axis=1)
    assert np.allclose(estimated, np.cos(np.pi * apart) if isinstance(sketch, gpulsh.SimHash) else 1 - apart)
    assert estimated[0] > estimated[1]
    assert list(made.get_feature_names_out()[:2]) == ["sketchvectorizer0", "sketchvectorizer1"]
    assert len(made.get_feature_names_out()) == rows.shape[1]


def test_digests_are_of_the_banding_that_fits_the_sketch(vectorizer: type) -> None:
    banding = gpulsh.Banding(bands=32, rows=4)
    rows = vectorizer(banding=banding, backend="cpu").fit_transform(TEXTS)
    assert (rows == banding(gpulsh.MinHash().from_texts(TEXTS, backend="cpu"), backend="cpu").values).all()
    with pytest.raises(gpulsh.ParameterError, match="signatures is of type BitSignatures"):
        vectorizer(gpulsh.SimHash(), banding=banding).fit(TEXTS)


@pytest.mark.parametrize(
    ("sketch", "said"), [("minhash:64", "sketch is 'minhash:64'"), (gpulsh.SimHash(weights="idf"), "weights is 'idf'")]
)
def test_what_is_no_sketch_of_each_text_alone_is_refused(vectorizer: type, sketch: object, said: str) -> None:
    with pytest.raises(gpulsh.ParameterError, match=f"^{said}.*; give "):
        vectorizer(sketch).fit(TEXTS)
