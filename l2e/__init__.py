"""Learned samplers: meta-learned stochastic-gradient MCMC for Bayesian neural networks."""

from l2e import metrics, priors, schedules
from l2e.batches import minibatches
from l2e.chain import ChainDivergedError, Draws, sample
from l2e.kinetic import KINETICS
from l2e.potential import minibatch
from l2e.predict import member_log_probs, predict
from l2e.pretrained import LearnedSampler, SamplerFileError, bundled, export, load
from l2e.samplers import SAMPLERS
from l2e.types import Info, Kinetic, Potential, Sampler, Task, TaskFamily

__all__ = [
    "KINETICS",
    "SAMPLERS",
    "ChainDivergedError",
    "Draws",
    "Info",
    "Kinetic",
    "LearnedSampler",
    "Potential",
    "Sampler",
    "SamplerFileError",
    "Task",
    "TaskFamily",
    "bundled",
    "export",
    "load",
    "member_log_probs",
    "metrics",
    "minibatch",
    "minibatches",
    "predict",
    "priors",
    "sample",
    "schedules",
]
