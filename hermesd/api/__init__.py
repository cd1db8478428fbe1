"""The generated code of the API. Written by tools/generate_proto.py; see proto/."""
