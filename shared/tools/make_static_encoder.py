"""Makes the embedded static encoder: a token table whose cosines follow all-MiniLM-L6-v2's.

Run by hand, with torch and sentence-transformers installed:

    python shared/tools/make_static_encoder.py DATA --teacher FOLDER --out shared/epic_memory/data/static_encoder

A bag of token vectors e(t) = normalise(sum of w_i v_i over the tokens i of t) is fitted so that e(t) points where
the teacher's embedding, reduced to d dimensions, points, and so that the cosines within a batch are the
teacher's. A token's vector is a linear map, shared by all tokens, of what the teacher makes of the token alone
and of the teacher's input embedding, plus a correction of its own: tokens the texts lack still profit from the
map. The rows are then stored as int8, each with its scale times its weight. Same input, same machine: same output.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import static_texts

Array = NDArray[np.float32]

DIMENSION = 256
EPOCHS = 5
BATCH = 256
LEARNING_RATE = 1e-3
COSINE_WEIGHT = 30.0
# Pairs the teacher finds this similar are rare in a batch; their errors count once more by themselves.
SIMILAR, SIMILAR_WEIGHT = 0.4, 2.0
# At most so many texts of one group come together in a batch.
TOGETHER = 6
SEED = 0


class Teacher:
    """all-MiniLM-L6-v2 (or another sentence-transformers model), its embeddings cached by text."""

    def __init__(self, folder: str, cache: Path | None) -> None:
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(folder, device="cpu")
        self.tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)
        self._cache = cache
        self._known: dict[bytes, Array] = {}
        if cache is not None and cache.exists():
            stored = np.load(cache)
            self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def encode(self, texts: list[str]) -> Array:
        """Unit vectors, shape `(len(texts), 384)`."""
        keys = {text: hashlib.sha256(text.encode()).hexdigest()[:32].encode() for text in dict.fromkeys(texts)}
        new = [text for text, key in keys.items() if key not in self._known]
        if new:
            vectors = self.model.encode(new, batch_size=128, normalize_embeddings=True, show_progress_bar=True)
            self._known.update(zip((keys[text] for text in new), np.asarray(vectors, dtype=np.float32), strict=True))
            if self._cache is not None:
                np.savez(self._cache, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))
        return np.stack([self._known[keys[text]] for text in texts])

    def words(self) -> list[str]:
        """The whole words of the vocabulary, in plain letters."""
        vocabulary = sorted(self.tokenizer.get_vocab().items(), key=lambda pair: pair[1])
        return [word for word, _ in vocabulary if word.isascii() and word.isalpha() and len(word) > 2]

    def token_features(self) -> Array:
        """For each token: the embedding of the token alone, and its input embedding, both of length one."""
        transformer = self.model[0].auto_model
        start, end = (self.tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        alone = []
        with torch.no_grad():
            for ids in torch.arange(self.tokenizer.get_vocab_size()).split(1024):
                framed = torch.stack([torch.full_like(ids, start), ids, torch.full_like(ids, end)], dim=1)
                hidden = transformer(input_ids=framed, attention_mask=torch.ones_like(framed)).last_hidden_state
                alone.append(torch.nn.functional.normalize(hidden.mean(dim=1), dim=1))
            inputs = torch.nn.functional.normalize(transformer.embeddings.word_embeddings.weight, dim=1)
        return torch.cat([torch.cat(alone), inputs], dim=1).numpy()


def token_ids(tokenizer: Tokenizer, texts: list[str]) -> list[NDArray[np.int64]]:
    """The token ids of each text, without special tokens."""
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]


def fit(features: Array, ids: list[NDArray[np.int64]], targets: Array, groups: NDArray[np.int64]) -> Array:
    """The weighted token vectors, shape `(tokens, DIMENSION)`.

    Args:
        features: Of each token, shape `(tokens, f)`; the first 384 columns live in the teacher's space.
        ids: Token ids of each text.
        targets: The teacher's unit vectors, shape `(texts, 384)`.
        groups: Number of the group each text belongs to, ascending.
    """
    torch.manual_seed(SEED)
    shuffle = np.random.default_rng(SEED)
    some = [row for row, tokens in enumerate(ids) if len(tokens)]
    ids, targets, groups = [ids[row] for row in some], targets[some], groups[some]
    members = np.split(np.arange(len(ids)), np.flatnonzero(np.diff(groups)) + 1)
    # Uncentred: what is kept of the teacher's space keeps its cosines.
    basis = np.linalg.svd(targets.T @ targets)[0][:, :DIMENSION].astype(np.float32)
    reduced = targets @ basis
    reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)

    counts = np.bincount(np.concatenate(ids), minlength=len(features))
    frequency = (counts + 1) / (counts.sum() + len(features))
    inputs = torch.from_numpy(features)
    shared = torch.zeros(features.shape[1], DIMENSION)
    shared[: basis.shape[0]] = torch.from_numpy(basis)
    shared.requires_grad_()
    own = torch.zeros(len(features), DIMENSION, requires_grad=True)
    log_weight = torch.tensor(np.log(1e-3 / (1e-3 + frequency)), dtype=torch.float32, requires_grad=True)
    parts = [([own], LEARNING_RATE), ([shared], 1e-3), ([log_weight], 1e-2)]
    optimiser = torch.optim.Adam([{"params": p, "lr": rate} for p, rate in parts])
    batches = len(ids) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, [rate for _, rate in parts], total_steps=EPOCHS * batches + 1, pct_start=0.1
    )
    whole, pointing = torch.from_numpy(targets), torch.from_numpy(reduced)

    def embed(rows: NDArray[np.int64]) -> torch.Tensor:
        texts = [ids[row] for row in rows]
        flat = torch.from_numpy(np.concatenate(texts))
        offsets = torch.from_numpy(np.cumsum([0, *(len(text) for text in texts[:-1])]))
        used, position = torch.unique(flat, return_inverse=True)
        vectors = inputs[used] @ shared + own[used]
        bags = torch.nn.functional.embedding_bag(
            position, vectors, offsets, mode="sum", per_sample_weights=log_weight[flat].exp()
        )
        return torch.nn.functional.normalize(bags, dim=1)

    for _ in range(EPOCHS):
        for rows in np.array_split(_shuffled(members, shuffle)[: batches * BATCH], batches):
            student, teacher = embed(rows), whole[rows]
            apart = (1.0 - (student * pointing[rows]).sum(dim=1)).mean()
            cosines = teacher @ teacher.T
            errors = (student @ student.T - cosines).square()
            similar = (cosines > SIMILAR) & ~torch.eye(len(rows), dtype=torch.bool)
            near = (errors * similar).sum() / (similar.sum() + 1)
            loss = apart + COSINE_WEIGHT * errors.mean() + SIMILAR_WEIGHT * near
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        return (log_weight.exp()[:, None] * (inputs @ shared + own)).numpy()


def _shuffled(members: list[NDArray[np.int64]], shuffle: np.random.Generator) -> NDArray[np.int64]:
    """All rows at random, a few of a group side by side."""
    pieces = []
    for rows in map(shuffle.permutation, members):
        pieces += [rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER)]
    return np.concatenate([pieces[piece] for piece in shuffle.permutation(len(pieces))])


def quantised(vectors: Array) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Rows as int8 and the scale of each row; global scale does not matter, embeddings are normalised."""
    vectors = vectors / np.abs(vectors).max()
    scales = np.abs(vectors).max(axis=1) / 127.0
    # float16 has to hold the scale, so the rows are rounded with what it can hold.
    held = np.maximum((scales * 1024).astype(np.float16), np.float16(1e-6))
    rows = np.clip(np.rint(vectors * 1024 / held.astype(np.float32)[:, None]), -127, 127)
    return rows.astype(np.int8), held


def pruned(tokenizer: Tokenizer) -> tuple[Tokenizer, NDArray[np.int64]]:
    """The tokenizer without its placeholder tokens, and which old ids are left."""
    description = json.loads(tokenizer.to_str())
    vocabulary = description["model"]["vocab"]
    left = [
        token for token, _ in sorted(vocabulary.items(), key=lambda pair: pair[1]) if not token.startswith("[unused")
    ]
    old = np.array([vocabulary[token] for token in left])
    new = {token: row for row, token in enumerate(left)}
    description["model"]["vocab"] = new
    for token in description["added_tokens"]:
        token["id"] = new[token["content"]]
    # Only special tokens around a text would need it, and a bag of tokens has none.
    description["post_processor"] = None
    description["truncation"] = description["padding"] = None
    return Tokenizer.from_str(json.dumps(description)), old


def save(folder: Path, vectors: Array, tokenizer: Tokenizer, **extra: float) -> None:
    """Write a model2vec folder."""
    small, old = pruned(tokenizer)
    rows, scales = quantised(vectors[old])
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"embeddings": rows, "weights": scales}, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)
    (folder / "tokenizer.json").write_text(small.to_str(), encoding="utf-8")
    config = {
        "model_type": "model2vec",
        "tokenizer_name": "sentence-transformers/all-MiniLM-L6-v2",
        "normalize": True,
        "max_length": 512,
        "embedding_dtype": "int8",
        **extra,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def student(teacher: Teacher, features: Array, groups: list[list[str]]) -> Array:
    """Fit on groups of texts."""
    texts = [text for group in groups for text in group]
    numbers = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return fit(features, token_ids(teacher.tokenizer, texts), teacher.encode(texts), numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with wiki_passages.jsonl and semeval_sts_2012_2015.tsv")
    parser.add_argument("--teacher", required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--cache", type=Path, help="file (.npz) for the teacher's embeddings")
    parser.add_argument("--tau", type=float, default=0.25, help="the coarse filter's default threshold")
    parser.add_argument("--floor", type=float, default=0.25, help="steering's default floor")
    options = parser.parse_args()
    teacher = Teacher(options.teacher, options.cache)
    groups = static_texts.fitting_groups(options.data, teacher.words())
    vectors = student(teacher, teacher.token_features(), groups)
    save(options.out, vectors, teacher.tokenizer, epic_tau=options.tau, epic_floor=options.floor)


if __name__ == "__main__":
    main()
