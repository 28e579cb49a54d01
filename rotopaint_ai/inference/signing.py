"""Signed packs: `card.sig` is an Ed25519 signature of the card, and the card holds the hash of every file.

`ROTOPAINT_PACK_KEYS` names a public key (PEM) or a folder of them. Where it is set, only packs signed by one of these
keys open, shipped ones included. Make keys and sign packs by

    openssl genpkey -algorithm ed25519 -out studio.key
    openssl pkey -in studio.key -pubout -out studio.pem
    python -m rotopaint_ai.inference.signing PACK --key studio.key
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import PackError, RotopaintError, UsageError
from rotopaint_ai.files import file_bytes, write_text

SIGNATURE = "card.sig"
KEYS = "ROTOPAINT_PACK_KEYS"
_MOST_BYTES = 10_000


def check_signature(folder: Path, card: bytes) -> None:
    """Where keys are demanded, refuse a pack whose card none of them has signed. Raises PackError, UsageError."""
    if demanded := os.environ.get(KEYS, ""):
        keys = [_public(path) for path in _key_files(Path(demanded))]
        signature = _read_signature(folder / SIGNATURE)
        if not any(_is_signed(key, signature, card) for key in keys):
            raise PackError(
                f"{folder}: is not signed by a key of {demanded} ({KEYS}); use a pack that the studio signed"
            )


def sign(folder: Path, card: bytes, key: Path) -> Path:
    """Write the signature of a pack's card next to it. Raises UsageError where the file holds no private Ed25519
    key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{key}: cannot be read as a key ({error}); wanted an Ed25519 key without password") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(f"{key}: is a key of another kind; wanted Ed25519")
    write_text(folder / SIGNATURE, base64.b64encode(private.sign(card)).decode() + "\n")
    return folder / SIGNATURE


def _key_files(given: Path) -> list[Path]:
    found = sorted(given.glob("*.pem")) if given.is_dir() else [given]
    if not found:
        raise UsageError(f"{given}: holds no *.pem; {KEYS} wants a public key or a folder of them")
    return found


def _public(path: Path) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise UsageError(f"{KEYS} is set and needs cryptography; pip install 'rotopaint-ai[signed]'") from error
    try:
        key = load_pem_public_key(file_bytes(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as a public key ({error}); {KEYS} wants Ed25519 keys") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path}: is a key of another kind; {KEYS} wants Ed25519 keys")
    return key


def _read_signature(path: Path) -> bytes:
    try:
        return base64.b64decode(file_bytes(path, _MOST_BYTES), validate=False)
    except (OSError, binascii.Error):
        return b""


def _is_signed(key: Any, signature: bytes, card: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, card)
    except InvalidSignature:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: sign packs."""
    parser = argparse.ArgumentParser(prog="python -m rotopaint_ai.inference.signing", description="Sign model packs.")
    parser.add_argument("packs", nargs="+", type=Path, metavar="PACK")
    parser.add_argument("--key", required=True, type=Path, help="private Ed25519 key, PEM")
    given = parser.parse_args(arguments)
    try:
        for folder in given.packs:
            print(sign(folder, (folder / "card.json").read_bytes(), given.key))
    except (RotopaintError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
