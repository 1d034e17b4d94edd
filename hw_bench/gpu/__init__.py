"""GPU descriptions: every constant with value, unit, kind and source, read from TOML and checked."""
