"""Make the reference vectors that every test run checks the encoder against.

Run once, where sentence-transformers is installed, with the folder of the model files:

    python tests/golden/make_minilm_reference.py "$(chimera models path minilm)"
"""

import json
import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

HERE = Path(__file__).parent

SHORT = [
    "",
    " ",
    "...",
    "?!",
    "Hi",
    "Goodbye.",
    "Goodbye!",
    "Take care, and thank you for the talk.",
    "(conversation ended)",
    "I will try that again.",
    "I will not try that again.",
    "Let us meet at the harbour at seven.",
    "Let us meet at the harbour at eight.",
    "The ferry leaves from pier four.",
    "THE FERRY LEAVES FROM PIER FOUR.",
    "the ferry  leaves\tfrom\npier four",
    "Zürich, São Paulo and Kraków are on the list.",
    "Zurich, Sao Paulo and Krakow are on the list.",
    "東京は今日も雨です。",
    "Вечером мы читали вслух.",
    "مرحبا بكم في المدينة",
    "Der Bäcker öffnet um sechs.",
    "Σίσυφος",
    "\N{WAVING HAND SIGN}\N{WAVING HAND SIGN}",
    "Great idea \N{ROCKET} let us go \N{PARTY POPPER}",
    "def area(r):\n    return 3.14159 * r ** 2",
    '{"tool": "search", "query": "tide table", "limit": 5}',
    "| day | high water |\n|---|---|\n| Monday | 06:12 |",
    "1. Gather the parts. 2. Sort them. 3. Build the frame.",
    "x = 4, y = 7, so x + y = 11",
    "https://example.org/a/very/long/path?with=query&and=more#part",
    "[SEP] a turn that writes the tokenizer's own marks [CLS] [PAD]",
    "null\x00byte and bell\x07 inside",
    "soft\u00adhyphen and zero\u200bwidth space",
    "e\u0301 written with a combining accent",
    "A" * 99,
    "A" * 101,
    "supercalifragilisticexpialidocious",
    "no. No! NO? no; no, no.",
    "«Quoted» – with dashes — and ‘curly’ “marks”…",
]
LONG = [
    "The river rose in the night. " * 12,
    "Every morning the keeper climbs the tower, trims the lamp, writes the wind and the weather "
    "into the book, and looks for the boat that brings the post. " * 6,
    "word " * 253,
    "word " * 254,
    "word " * 255,
    "word " * 400,
    "naïve façade " * 120,
    "雨" * 300,
    "a,b;c " * 90,
    " ".join(f"Item {n} costs {n * 3} coins and weighs {n % 7} stones." for n in range(60)),
]


def main() -> None:
    texts = SHORT + LONG
    model = SentenceTransformer(sys.argv[1], device="cpu")
    vectors = np.vstack([model.encode([text]) for text in texts]).astype(np.float32)
    (HERE / "minilm_texts.json").write_text(json.dumps(texts, indent=0) + "\n", encoding="utf-8")
    np.save(HERE / "minilm_reference.npy", vectors)
    print(f"{len(texts)} texts, vectors {vectors.shape}")


if __name__ == "__main__":
    main()
