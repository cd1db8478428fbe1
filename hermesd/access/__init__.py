"""Who may do what, and where code may run: decisions only, each a pure function or a look at file modes."""
