"""Configurations refuse nonsense, and name the field in which they differ."""

import json
from dataclasses import replace

import pytest
from tiny import tiny_config

from l2e.meta.config import PRESETS, InnerConfig, KineticConfig, first_difference

BAD = [
    (lambda: KineticConfig(name="magnetic"), "kinetic energy 'magnetic'; known: anchored"),
    (lambda: KineticConfig(widths=()), "widths"),
    (lambda: InnerConfig(draws=0), "draws is 0"),
    (lambda: InnerConfig(physics="quantum"), "known: exact, reference"),
    (lambda: InnerConfig(learning_rate=-1.0), "learning_rate is -1.0"),
    (lambda: InnerConfig(momentum_decay=0.0), "momentum_decay is 0.0"),
    (lambda: InnerConfig(temperature=-1.0), "temperature is -1.0"),
    (lambda: InnerConfig(batch_size=0), "batch_size is 0"),
    (lambda: tiny_config(meta_loss="hinge"), "known: bma, cross_entropy"),
    (lambda: tiny_config(pairs=5), "pairs is 5 and chunk 2"),
    (lambda: tiny_config(sigma=0.0), "sigma is 0.0"),
    (lambda: tiny_config(outer_steps=0), "outer_steps is 0"),
    (lambda: tiny_config(strategy="guess"), "unknown strategy 'guess'; known: open_es"),
    (lambda: tiny_config(beta2=1.5), "beta2 is 1.5"),
    (lambda: tiny_config(heldout_chains=3), "heldout_chains is 3 and chunk 2"),
    (lambda: tiny_config(kinetic=KineticConfig("gaussian")), "learnable: gradient, anchored"),
    (lambda: InnerConfig(num_data=-5), "num_data is -5"),
    (lambda: InnerConfig(prior_std=0.0), "prior_std is 0.0"),
    (lambda: tiny_config(max_dropped=1.0), "max_dropped is 1.0"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    config = PRESETS[name].to_json()
    assert first_difference(config, json.loads(json.dumps(config))) is None


def test_paper_preset_is_the_paper():
    paper = PRESETS["paper"]
    assert (paper.inner.steps, paper.inner.burn_in, paper.inner.draws, paper.inner.thin) == (
        3000, 2500, 10, 50,
    )  # fmt: skip
    assert (paper.outer_steps, paper.sigma, paper.learning_rate) == (1000, 0.01, 0.01)
    assert (paper.beta1, paper.beta2, paper.clip_norm, paper.pairs) == (0.9, 0.99, 1.0, 8)


def test_first_difference_names_the_field_and_both_values():
    ours = tiny_config()
    theirs = replace(ours, inner=replace(ours.inner, temperature=0.5))
    assert first_difference(ours.to_json(), theirs.to_json()) == (
        "inner.temperature: now 1.0, in the checkpoint 0.5"
    )
    assert first_difference(ours.to_json(), replace(ours, outer_steps=99).to_json()) is None
