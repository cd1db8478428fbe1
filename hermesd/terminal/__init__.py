"""How the command line speaks: exit status, tables, colours, JSON documents, lazily loaded commands."""
