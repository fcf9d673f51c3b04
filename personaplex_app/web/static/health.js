// The health strip.
