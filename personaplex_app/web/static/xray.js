// The X-ray of a talk.
