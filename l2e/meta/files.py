"""Names of the files in a run's folder; other tools rely on them."""

CONFIG_FILE = "config.json"
METRICS_FILE = "metrics.jsonl"
FIGURE_FILE = "meta_loss.png"
CHECKPOINTS_FOLDER = "checkpoints"
SAMPLER_FOLDER = "sampler"
COMPARISON_FILE = "comparison.json"
COMPARISON_TABLE = "comparison.md"
