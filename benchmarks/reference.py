"""The encoder that a user would otherwise pick: sentence-transformers on the same weights."""

import json
import shutil
from pathlib import Path
from typing import Any

from chimeralab import weights

BERT = {
    "architectures": ["BertModel"],
    "hidden_act": "gelu",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "pad_token_id": 0,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
TOKENIZER = {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True, "model_max_length": 512}
MODULES = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]


def write_folder(folder: Path) -> Path:
    """A folder that sentence-transformers loads: our weights with the settings it expects."""
    source = weights.ensure("minilm")
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.copyfile(source / name, folder / name)
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(MODULES)
    ]
    pooling = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
    files: dict[str, Any] = {
        "config.json": BERT,
        "tokenizer_config.json": TOKENIZER,
        "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "2_Normalize").mkdir(exist_ok=True)
    return folder


def load(folder: Path) -> Any:
    """The reference model on the CPU in f32."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - seconds, and optional

    return SentenceTransformer(str(write_folder(folder)), device="cpu")
