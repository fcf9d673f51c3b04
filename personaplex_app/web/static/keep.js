// What is kept of a talk.
