"""Names of the drafters that can be trained. A new one adds a line here and a file beside."""

from __future__ import annotations

from kernels.runtime import InputError
from lessons.lib.model.features import eagle3_layers
from lessons.lib.train.dflash import DFlashRecipe
from lessons.lib.train.dspark import DSparkRecipe
from lessons.lib.train.eagle3 import Eagle3Recipe
from lessons.lib.train.frozen_kv_mtp import FrozenKvMtpRecipe
from lessons.lib.train.mtp import MtpRecipe
from lessons.lib.train.recipe import Recipe
from lessons.lib.train.standalone import StandaloneRecipe

RECIPES: dict[str, type[Recipe]] = {
    "standalone": StandaloneRecipe,
    "eagle3": Eagle3Recipe,
    "mtp": MtpRecipe,
    "frozen_kv_mtp": FrozenKvMtpRecipe,
    "dflash": DFlashRecipe,
    "dspark": DSparkRecipe,
}


def cached_layers(num_layers: int) -> tuple[int, ...]:
    """Ids of the target's states that any of the recipes reads, so that all share one cache."""
    return tuple(
        sorted({*eagle3_layers(num_layers), *range(max(0, num_layers - 2), num_layers + 1)})
    )


def recipe_maker(name: str) -> type[Recipe]:
    """Raises InputError for an unknown name."""
    if name not in RECIPES:
        raise InputError(f"nothing to train named {name!r}; choose one of {', '.join(RECIPES)}")
    return RECIPES[name]
