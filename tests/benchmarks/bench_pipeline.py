"""The whole pipeline on PrefEval's multiple choice: what is kept, with which stance, and where it is found.

Of each case the first of four options follows the preference, the others break it. Its persona is its preference and
nine others at random from the file; the corpus is all options of all cases of its topic, shuffled. A memory is built of
it, and the question searched in all of it. "first" is the share of cases whose following option comes before those of
their breaking ones that are found (a tie is a failure, and so is "none": that none of the four is held; chance is
0.25); "broken" how many of the own breaking options are among the first five hits. "kept" and "bytes" are of the
corpus, and as `EpicMemory.stats` says. "anew" is what is not in the product: the first 20 hits of the memory, ranked by
the signed score of their texts.

Three tables follow on fewer cases: the stages by themselves, steering without a stance policy, and tau.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common import Known, parse, parser, read_jsonl, searching, settled
from epic_memory import EpicMemory
from epic_memory.encoders import default_encoder, embed
from epic_memory.encoders.base import Encoder, default_tau
from epic_memory.steering import QuerySteering
from epic_memory.types import Hits, Stance

OTHERS = 9
FIVE = 5
NEAREST = 20
TAUS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
# What "C+F+S" of the tables is, beside the steering.
POLICY = "prefer"
# A score far below any other: behind those that were ranked anew.
_BEHIND = 1000.0

Ranking = list[tuple[str, float]]
"""Texts with their scores, best first."""


class Case(NamedTuple):
    own: str
    persona: list[str]
    question: str
    options: list[str]
    corpus: list[str]


class Rank(NamedTuple):
    """Where a case's options are found."""

    first: float
    none: float
    broken: float


class Built(NamedTuple):
    """What became of a case's corpus."""

    kept: float
    octets: float


class Stances(NamedTuple):
    """Stances of a case's options under its preference; None for one that is not kept for it."""

    following: list[Stance | None]
    breaking: list[Stance | None]


def cases_of(records: Sequence[dict[str, Any]]) -> list[Case]:
    preferences = list(dict.fromkeys(record["preference"] for record in records))
    options: dict[str, list[str]] = {}
    for record in records:
        options.setdefault(record["topic"], []).extend(record["options"])
    cases = []
    for number, record in enumerate(records):
        # Of each case by itself, so that fewer cases are the same ones.
        drawn = random.Random(f"0/{number}")
        own = record["preference"]
        persona = [own, *drawn.sample([one for one in preferences if one != own], OTHERS)]
        corpus = list(dict.fromkeys(options[record["topic"]]))
        drawn.shuffle(persona)
        drawn.shuffle(corpus)
        cases.append(Case(own, persona, record["question"], record["options"], corpus))
    return cases


def build(encoder: Encoder, case: Case, **options: Any) -> tuple[EpicMemory, Built]:
    memory = EpicMemory(options.pop("preferences", case.persona), encoder=encoder, **settled(**options))
    memory.add(case.corpus)
    return memory, Built(len(memory) / len(case.corpus), memory.stats().bytes["total"])


def find(memory: EpicMemory, case: Case, **options: Any) -> Hits:
    return memory.search(case.question, max(1, len(memory)), **searching(**options))


def ranking(hits: Hits) -> Ranking:
    return [(hit.item.text, hit.score) for hit in hits]


def rank(case: Case, found: Ranking) -> Rank:
    place = {text: number for number, (text, _) in enumerate(found)}
    following, *breaking = case.options
    at = place.get(following)
    others = [place[option] for option in breaking if option in place]
    # By score and not by place: a tie, or a score that is no number, is no choice.
    first = at is not None and all(found[at][1] > found[other][1] for other in others)
    return Rank(
        first=float(first and bool(np.isfinite(found[at or 0][1]))),
        none=float(at is None and not others),
        broken=float(sum(other < FIVE for other in others)),
    )


def stances(case: Case, hits: Hits) -> Stances:
    known = {
        hit.item.text: entry.stance for hit in hits for entry in hit.entries if entry.preference == case.own
    }  # fmt: skip
    found = [known.get(option) for option in case.options]
    return Stances(found[:1], found[1:])


# What it is compared with.


def dense(encoder: Encoder, case: Case) -> dict[str, Ranking]:
    """Retrieval over all of the corpus."""
    vectors, query = embed(encoder, case.corpus), embed(encoder, [case.question])[0]
    paper = QuerySteering(encoder, case.persona, "paper")
    return {
        "dense, query alone": _sorted(case.corpus, vectors @ query),
        "dense, paper (Eq. 7-8)": _sorted(case.corpus, paper.score(case.question, case.corpus)),
    }


def anew(encoder: Encoder, case: Case, found: Ranking) -> Ranking:
    """The first of a ranking ranked by `QuerySteering.score`, the others behind them as they were."""
    near = [text for text, _ in found[:NEAREST]]
    if not near:
        return []
    scores = QuerySteering(encoder, case.persona, "signed").score(case.question, near)
    return _sorted(near, scores) + [(text, score - _BEHIND) for text, score in found[NEAREST:]]


def _sorted(texts: Sequence[str], scores: np.ndarray) -> Ranking:
    return [(texts[row], float(scores[row])) for row in np.argsort(-scores, kind="stable")]


# Printing.


def print_head(what: str) -> None:
    print(f"\n{what:40} first  none   broken    kept    bytes")


def print_row(name: str, ranks: Sequence[Rank], built: Sequence[Built] = ()) -> None:
    line = "{:40} {:.3f}  {:.3f}  {:.2f}  ".format(name, *np.array(ranks).mean(axis=0))
    print(line + ("{:8.1%} {:8.0f}".format(*np.array(built).mean(axis=0)) if built else ""), flush=True)


def shares(found: Sequence[Stances]) -> str:
    """Of the options that follow, and of those that break: how many are kept for their preference, and as what."""
    said = []
    for name, right in (("following", Stance.SUPPORTS), ("breaking", Stance.CONFLICTS)):
        every = [stance for one in found for stance in getattr(one, name)]
        kept = [stance for stance in every if stance is not None]
        of = max(1, len(kept))
        mixed = sum(stance in {Stance.MIXED, Stance.NEUTRAL} for stance in kept) / of
        said.append(
            f"{name} kept {len(kept) / len(every):.3f}, right {kept.count(right) / of:.3f}, undecided {mixed:.3f}"
        )
    return "; ".join(said)


# What is measured.


def print_main(encoder: Encoder, cases: Sequence[Case]) -> None:
    ranks: dict[str, list[Rank]] = {}
    built: list[Built] = []
    told: list[Stances] = []
    for case in cases:
        memory, how = build(encoder, case)
        hits = find(memory, case)
        built.append(how)
        told.append(stances(case, hits))
        own = {"EpicMemory": ranking(hits), "EpicMemory, anew": anew(encoder, case, ranking(hits))}
        for name, ranked in {**dense(encoder, case), **own}.items():
            ranks.setdefault(name, []).append(rank(case, ranked))
        memory.close()
    print_head(f"{len(cases)} cases")
    for name, found in ranks.items():
        print_row(name, found, built if name == "EpicMemory" else ())
    print_differences(ranks)
    print(f"own options: {shares(told)}")


def print_differences(ranks: dict[str, list[Rank]]) -> None:
    firsts = {name: np.array([one.first for one in found]) for name, found in ranks.items()}
    said = []
    for name, values in firsts.items():
        if name.startswith("dense"):
            gain = firsts["EpicMemory"] - values
            within = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            said.append(f"{gain.mean():+.3f} +- {within:.3f} ({name})")
    print("EpicMemory first, paired difference, 95 %: " + "; ".join(said))


def stages(case: Case) -> dict[str, dict[str, Any]]:
    """How the memory of each stage is built."""
    return {
        # With nothing filtered each text is held once for each preference; one preference gives one vector a text.
        "none": {"coarse": False, "fine": False, "preferences": case.persona[:1]},
        "C": {"fine": False},
        "F": {"coarse": False},
        "C+F": {},
    }


def print_stages(encoder: Encoder, cases: Sequence[Case]) -> None:
    ranks: dict[str, list[Rank]] = {}
    built: dict[str, list[Built]] = {}
    for case in cases:
        for name, building in stages(case).items():
            memory, how = build(encoder, case, **building)
            ways = {name: ("off", POLICY)}
            if name == "C+F":
                ways |= {f"C+F+S ({mode})": (mode, POLICY) for mode in ("paper", "signed")}
                ways |= {f"C+F+S ({mode}), any stance": (mode, "any") for mode in ("paper", "signed")}
            for way, (mode, policy) in ways.items():
                hits = find(memory, case, steering=mode, stance_policy=policy)
                ranks.setdefault(way, []).append(rank(case, ranking(hits)))
                built.setdefault(way, []).append(how)
            memory.close()
    print_head(f"stages, {len(cases)} cases")
    for way, found in ranks.items():
        print_row(way, found, built[way])


def print_taus(encoder: Encoder, cases: Sequence[Case]) -> None:
    print_head(f"tau, {len(cases)} cases (own tau {default_tau(encoder):.2f})")
    for tau in TAUS:
        ranks, built = [], []
        for case in cases:
            memory, how = build(encoder, case, tau=tau)
            ranks.append(rank(case, ranking(find(memory, case, steering="signed", stance_policy=POLICY))))
            built.append(how)
            memory.close()
        print_row(f"{tau:.2f}", ranks, built)


def spread(count: int, wanted: int) -> list[int]:
    """Numbers of some records, evenly over the file, which is sorted by topic."""
    return [number * count // wanted for number in range(min(wanted, count))] if wanted < count else list(range(count))


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--main", type=int, default=0, help="cases of the first table; default: all")
    made.add_argument("--cases", type=int, default=120, help="cases of the other tables")
    options = parse(made)
    cases = cases_of(read_jsonl(options.data / "prefeval_mcq.jsonl"))
    fewer = [cases[number] for number in spread(len(cases), options.cases)]
    encoder = Known(default_encoder())
    print(f"{encoder.name}, tau {encoder.tau}, floor {encoder.floor}")
    print_main(encoder, [cases[number] for number in spread(len(cases), options.main or len(cases))])
    print_stages(encoder, fewer)
    print_taus(encoder, fewer)


if __name__ == "__main__":
    main()
