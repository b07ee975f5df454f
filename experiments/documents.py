"""The JSON document that a command printed, among lines of others: NCCL writes to standard output, too."""
import json
import re


def document_in(text, begins="{["):
    """The first document that begins a line, with one of these characters, and ends one. ValueError where there is none:
    says what was found. Lines such as '[2026-01-01 ..] host:1 NCCL WARN ..' are none."""
    why = ""
    for at in (m.start() for m in re.finditer(rf"^[{re.escape(begins)}]", text, re.M)):
        try:
            document, end = json.JSONDecoder().raw_decode(text, at)
        except ValueError as e:
            why = f" ({e})"
            continue
        if not text[end:].partition("\n")[0].strip():
            return document
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    raise ValueError("expected a JSON document on standard output, found "
                     + (f"'{first[:120]}' and no whole document{why}" if first else "nothing"))
