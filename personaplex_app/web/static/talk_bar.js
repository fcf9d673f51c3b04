// The talk's bar.
