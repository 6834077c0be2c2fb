"""Meta-training: antithetic evolution strategies over short chains."""
