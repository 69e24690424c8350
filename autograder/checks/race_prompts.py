"""Requests for the race, drawn from the secret seed: no two alike, none that a lesson prints."""

import random

NAMES, PLACES, TRADES, THINGS, COLOURS = (
    line.split()
    for line in """\
Ada Amara Anton Bettina Bruno Carla Cyril Dalia Edith Emil Farah Gustav Hanna Ilse Ivan Jonas Katja
Aldern Brisk Carrow Dunmore Elsby Fenwick Garrow Hulm Ister Jarrow Kellan Lomas Marrick Norby Orrin
baker carpenter clerk dentist gardener mason nurse painter pilot printer tailor teacher weaver
anchors baskets bells chairs clocks kettles ladders lamps maps ropes saddles stoves tables
amber black blue bronze green grey orange purple red silver white yellow""".splitlines()
)
SENTENCES = (
    "In {year} {name} moved to {place} and opened a shop for {thing}.",
    "The {colour} house of {name} stands {number} metres from the harbour of {place}.",
    "Every autumn {name} sells {number} {colour} {thing} to the {trade} of {place}.",
    "A {trade} named {name} counted {number} {thing} in the cellar of the town hall.",
    "Since {year} the road from {place} has been closed to everyone but the {trade}.",
    "{name} wrote the number {number} on a {colour} card and sent it to {place}.",
)
COPY = "Repeat the following passage exactly, word for word:\n\n{passage}"
JSON = (
    "Write these people as a JSON list of objects with the keys name, town, trade and age. "
    "Print the JSON and nothing else.\n\n{lines}"
)


def copy_request(rng: random.Random) -> str:
    """A passage to repeat: four sentences about nobody."""
    sentences = rng.sample(SENTENCES, 4)
    return COPY.format(passage=" ".join(sentence.format(**words(rng)) for sentence in sentences))


def json_request(rng: random.Random) -> str:
    """People to put into JSON, whose keys come again with every one of them."""
    drawn = [words(rng) for _ in range(4)]
    lines = [f"{w['name']} of {w['place']}, {w['trade']}, {w['age']}" for w in drawn]
    return JSON.format(lines="\n".join(lines))


def words(rng: random.Random) -> dict[str, str]:
    """One word for every place of a sentence."""
    return {
        "name": f"{rng.choice(NAMES)} {rng.choice(PLACES)}",
        "place": rng.choice(PLACES),
        "trade": rng.choice(TRADES),
        "thing": rng.choice(THINGS),
        "colour": rng.choice(COLOURS),
        "number": str(rng.randint(100, 9999)),
        "year": str(rng.randint(1700, 1999)),
        "age": str(rng.randint(18, 90)),
    }
