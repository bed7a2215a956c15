"""Facts about blocks that schedules, passes and CINN share: references, scopes, regions, conditions, reductions."""
