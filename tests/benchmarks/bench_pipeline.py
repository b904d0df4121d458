"""The whole pipeline on PrefEval's multiple choice: what is kept, with which stance, and where it is found.

Of each case the first of four options follows the preference, the others break it. Its persona is its preference and
nine others at random from the file; the corpus is all options of all cases of its topic, shuffled. A memory is built of
it, and the question searched in all of it. "first" is the share of cases whose following option comes before those of
their breaking ones that are found (a tie is a failure, and so is "none": that none of the four is held; chance is
0.25); "MRR" its mean reciprocal rank among all hits; "broken" how many of the own breaking options are among the first
five hits; "followed" how often the following one is. "kept" and "bytes" are of the corpus, and as `EpicMemory.stats`
says. "anew" is what is not in the product: the first 20 hits of the memory, ranked by the signed score of their texts.

Three tables follow on fewer cases: the stages by themselves, steering by stance policy, and tau. `--teacher` takes some
seconds for each case, as instructions are encoded; `--main 100 --cases 30` are fewer of them.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common import Known, parse, parser, read_jsonl, searching, settled
from epic_memory import EpicMemory
from epic_memory.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder, default_tau
from epic_memory.preferences.parser import aspects_of
from epic_memory.steering import QuerySteering
from epic_memory.types import Hits, Stance

OTHERS = 9
FIVE = 5
NEAREST = 20
TAUS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
STEERINGS = ("off", "paper", "signed")
POLICIES = ("any", "prefer", "only_supports")
# What "C+F+S" of the tables is, beside the steering.
POLICY = "prefer"
# A score far below any other: behind those that were ranked anew.
_BEHIND = 1000.0

Ranking = list[tuple[str, float]]
"""Texts with their scores, best first."""


class Case(NamedTuple):
    topic: str
    own: str
    persona: list[str]
    question: str
    options: list[str]
    corpus: list[str]


class Rank(NamedTuple):
    """Where a case's options are found."""

    first: float
    none: float
    reciprocal: float
    broken: float
    followed: float


class Built(NamedTuple):
    """What became of a case's corpus."""

    kept: float
    octets: float
    seconds: float


class Stances(NamedTuple):
    """Stances of a case's options under its preference; None for one that is not kept for it."""

    following: list[Stance | None]
    breaking: list[Stance | None]


def cases_of(records: Sequence[dict[str, Any]], draw: int) -> list[Case]:
    preferences = list(dict.fromkeys(record["preference"] for record in records))
    options: dict[str, list[str]] = {}
    for record in records:
        options.setdefault(record["topic"], []).extend(record["options"])
    cases = []
    for number, record in enumerate(records):
        # Of each case by itself, so that fewer cases are the same ones.
        drawn = random.Random(f"{draw}/{number}")
        own = record["preference"]
        persona = [own, *drawn.sample([one for one in preferences if one != own], OTHERS)]
        corpus = list(dict.fromkeys(options[record["topic"]]))
        drawn.shuffle(persona)
        drawn.shuffle(corpus)
        cases.append(Case(record["topic"], own, persona, record["question"], record["options"], corpus))
    return cases


def build(encoder: Encoder, case: Case, **options: Any) -> tuple[EpicMemory, Built]:
    started = time.perf_counter()
    memory = EpicMemory(options.pop("preferences", case.persona), encoder=encoder, **settled(**options))
    memory.add(case.corpus)
    taken = time.perf_counter() - started
    return memory, Built(len(memory) / len(case.corpus), memory.stats().bytes["total"], taken)


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
        reciprocal=0.0 if at is None else 1.0 / (at + 1),
        broken=float(sum(other < FIVE for other in others)),
        followed=float(at is not None and at < FIVE),
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
    alone = _sorted(case.corpus, vectors @ query)
    paper = QuerySteering(encoder, case.persona, "paper")
    return {
        "dense, query alone": alone,
        "dense, paper (Eq. 7-8)": _sorted(case.corpus, paper.score(case.question, case.corpus)),
        f"dense, nearest {NEAREST} by signed score": anew(encoder, case, alone),
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
    print(f"\n{what:40} first  none   MRR    broken followed   kept    bytes  build s")


def print_row(name: str, ranks: Sequence[Rank], built: Sequence[Built] = (), seconds: float | None = None) -> None:
    found = np.array(ranks).mean(axis=0)
    line = "{:40} {:.3f}  {:.3f}  {:.3f}  {:.2f}   {:.3f}   ".format(name, *found)
    if built:
        kept, octets, _ = np.array(built).mean(axis=0)
        line += f"{kept:8.1%} {octets:8.0f}"
    print(line + ("" if seconds is None else f"  {seconds:.3f}"), flush=True)


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


def right(found: Sequence[Stances]) -> float:
    """Of the own options kept for their preference, the share whose stance is right."""
    following = [stance for one in found for stance in one.following if stance is not None]
    breaking = [stance for one in found for stance in one.breaking if stance is not None]
    good = following.count(Stance.SUPPORTS) + breaking.count(Stance.CONFLICTS)
    return good / max(1, len(following) + len(breaking))


# What is measured.


def print_main(encoder: Encoder, draws: Sequence[Sequence[Case]]) -> None:
    ranks: dict[str, list[list[Rank]]] = {}
    built: list[Built] = []
    told: list[Stances] = []
    for cases in draws:
        for found in ranks.values():
            found.append([])
        for case in cases:
            memory, how = build(encoder, case)
            hits = find(memory, case)
            built.append(how)
            told.append(stances(case, hits))
            own = {"EpicMemory": ranking(hits), "EpicMemory, anew": anew(encoder, case, ranking(hits))}
            for name, ranked in {**dense(encoder, case), **own}.items():
                ranks.setdefault(name, [[]])[-1].append(rank(case, ranked))
            memory.close()
    cases = [case for drawn in draws for case in drawn]
    print_head(f"{len(draws)} draw(s) of {len(draws[0])} cases")
    for name, drawn in ranks.items():
        print_row(name, [one for found in drawn for one in found], built if name == "EpicMemory" else ())
        if len(drawn) > 1:
            means = [statistics.mean(one.first for one in found) for found in drawn]
            print(f"{'':40} first by draw {min(means):.3f} to {max(means):.3f}, spread {statistics.stdev(means):.3f}")
    print_differences(ranks)
    print(f"stance right {right(told):.3f} of own options kept for their preference. {shares(told)}")
    print_topics(cases, [one for found in ranks["EpicMemory"] for one in found], built, told)


def print_differences(ranks: dict[str, list[list[Rank]]]) -> None:
    firsts = {name: np.array([one.first for found in drawn for one in found]) for name, drawn in ranks.items()}
    said = []
    for name, values in firsts.items():
        if name.startswith("dense"):
            gain = firsts["EpicMemory"] - values
            within = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            said.append(f"{gain.mean():+.3f} +- {within:.3f} ({name})")
    print("EpicMemory first, paired difference, 95 %: " + "; ".join(said))


def print_topics(cases: Sequence[Case], ranks: Sequence[Rank], built: Sequence[Built], told: Sequence[Stances]) -> None:
    print(f"{'by topic':34} cases first  none   MRR    broken followed kept   stance right")
    for topic in sorted({case.topic for case in cases}):
        rows = [row for row, case in enumerate(cases) if case.topic == topic]
        found = np.array([ranks[row] for row in rows]).mean(axis=0)
        kept = statistics.mean(built[row].kept for row in rows)
        good = right([told[row] for row in rows])
        print("{:34} {:5} {:.3f}  {:.3f}  {:.3f}  {:.2f}   {:.3f}   {:5.1%}  {:.3f}".format(
            topic, len(rows), *found, kept, good
        ))  # fmt: skip


def stages(case: Case) -> dict[str, dict[str, Any]]:
    """How the memory of each stage is built."""
    return {
        # With nothing filtered each text is held once for each preference; one preference gives one vector a text.
        "none": {"coarse": False, "fine": False, "preferences": case.persona[:1]},
        "C": {"fine": False},
        "F": {"coarse": False},
        "C+F": {},
    }


def print_stages(encoder: Encoder, plain: Encoder, cases: Sequence[Case], timed: int) -> None:
    ranks: dict[str, list[Rank]] = {}
    built: dict[str, list[Built]] = {}
    seconds: dict[str, list[float]] = {}
    differ = 0
    for number, case in enumerate(cases):
        for name, building in stages(case).items():
            memory, how = build(encoder, case, **building)
            built.setdefault(name, []).append(how)
            ways = [("off", POLICY)] if name != "C+F" else [(mode, policy) for policy in POLICIES for mode in STEERINGS]
            for mode, policy in ways:
                hits = find(memory, case, steering=mode, stance_policy=policy)
                ranks.setdefault(f"{name}, {policy}, {mode}", []).append(rank(case, ranking(hits)))
            memory.close()
            if number < timed:
                # What is remembered is not encoded again: the time is that of the encoder as it is.
                memory, how = build(plain, case, **building)
                differ += not _same(hits, find(memory, case, steering=mode, stance_policy=policy))
                memory.close()
                seconds.setdefault(name, []).append(how.seconds)
    print_head(f"stages, {len(cases)} cases")
    for name, how_built in built.items():
        print_row(name, ranks[f"{name}, {POLICY}, off"], how_built, statistics.median(seconds.get(name, [np.nan])))
    for mode in STEERINGS[1:]:
        print_row(f"C+F+S ({mode})", ranks[f"C+F, {POLICY}, {mode}"], built["C+F"])
    print(f"build s: median of {timed}; {differ} of {timed * len(built)} found other than with texts remembered")
    print_head(f"C+F: stance policy, steering; {len(cases)} cases")
    for policy in POLICIES:
        for mode in STEERINGS:
            print_row(f"{policy}, {mode}", ranks[f"C+F, {policy}, {mode}"])


def _same(one: Hits, other: Hits) -> bool:
    # Which texts are encoded together may change the last bits.
    return {hit.item.text: set(hit.stances) for hit in one} == {
        hit.item.text: set(hit.stances) for hit in other
    } and np.allclose([hit.score for hit in one], [hit.score for hit in other], atol=2e-3)


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


def print_mistakes(encoder: Encoder, cases: Sequence[Case], count: int) -> None:
    """Own options that were judged wrongly under their own preference, each kind up to a number."""
    tau = default_tau(encoder)
    kinds: dict[str, list[str]] = {}
    sides: dict[str, list[str]] = {}
    for case in cases:
        memory, _ = build(encoder, case)
        told = stances(case, find(memory, case))
        judged = list(memory.judge(case.options))
        memory.close()
        near = embed(encoder, case.options) @ embed(encoder, [case.own])[0]
        aspects = aspects_of(case.own)
        side = "both" if aspects.liked and aspects.avoided else "likes" if aspects.liked else "avoids"
        for row, stance in enumerate((*told.following, *told.breaking)):
            kind = _mistake(row == 0, stance, float(near[row]) < tau, judged[row].kept)
            if kind:
                sides.setdefault(kind, []).append(side)
                kinds.setdefault(kind, []).append(
                    f"{near[row]:.2f} {case.options[row]}\n       {case.own}"
                    f" [{'; '.join(aspects.liked)} | {'; '.join(aspects.avoided)}]"
                )
    print("cosine with the preference, option, preference [liked | avoided]")
    for kind, found in sorted(kinds.items()):
        by = ", ".join(f"{side} {sides[kind].count(side)}" for side in ("likes", "avoids", "both"))
        print(f"\n{kind}: {len(found)} in {len(cases)} cases (preference {by})")
        for line in random.Random(0).sample(found, min(count, len(found))):
            print(f"  {line}")


def _mistake(follows: bool, stance: Stance | None, below: bool, kept: bool) -> str:
    """What is wrong with what became of an option, if anything."""
    what = "follows" if follows else "breaks"
    if stance is None:
        why = "below tau" if below else "held for other preferences only" if kept else "discarded by the verifier"
        return f"{what}, {why}"
    return "" if stance is (Stance.SUPPORTS if follows else Stance.CONFLICTS) else f"{what}, held as {stance.value}"


def spread(count: int, wanted: int) -> list[int]:
    """Numbers of some records, evenly over the file, which is sorted by topic."""
    return [number * count // wanted for number in range(min(wanted, count))] if wanted < count else list(range(count))


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2, to measure with it too")
    made.add_argument("--draws", type=int, default=1, help="personas drawn for each case, in the first table")
    made.add_argument("--main", type=int, default=0, help="cases of the first table; default: all")
    made.add_argument("--cases", type=int, default=120, help="cases of the other tables; 0: leave them out")
    made.add_argument("--mistakes", type=int, default=0, help="only show so many options of each kind judged wrongly")
    options = parse(made)
    records = read_jsonl(options.data / "prefeval_mcq.jsonl")
    draws = [cases_of(records, draw) for draw in range(max(1, options.draws))]
    fewer = [draws[0][number] for number in spread(len(records), options.cases)]
    chosen = spread(len(records), options.main or len(records))
    encoders: list[tuple[Encoder, int]] = [(default_encoder(), 20)]
    if options.teacher:
        encoders.append((SentenceTransformerEncoder(options.teacher), 3))
    for plain, timed in encoders:
        started = time.perf_counter()
        encoder = Known(plain)
        print(f"\n{plain.name}, tau {encoder.tau}, floor {encoder.floor}")
        if options.mistakes:
            print_mistakes(encoder, fewer or draws[0], options.mistakes)
            continue
        print_main(encoder, [[drawn[number] for number in chosen] for drawn in draws])
        if fewer:
            print_stages(encoder, plain, fewer, min(timed, len(fewer)))
            print_taus(encoder, fewer)
        print(f"({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
