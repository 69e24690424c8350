"""A course of one lesson in both languages, small enough to build in a test."""

from pathlib import Path

QUARTO = """\
course-title-zh: "小课程"
website:
  title: "Tiny course"
"""

INDEX = """\
---
title: "Tiny course"
short-title: "Start here"
lang: en
---

Go to [the lesson](../lessons/lesson01_tiny.qmd#questions).

## Start

```sh
make course
```
"""

INDEX_ZH = """\
---
title: "小课程"
lang: zh
---

前往[第一课](../lessons/lesson01_tiny.zh.qmd)。
"""

NOT_FOUND = """\
---
title: "Page not found"
lang: en
---

Go to the [start page](index.qmd).
"""

CELLS = """\
```{python}
#| label: setup
#| course_role: setup
import math
```

```{python}
#| label: half
#| course_role: exercise
#| eval: false
def half(x):
    return ______
```

```{python}
#| label: main
#| course_role: check
#| points: 2
#| eval: false
assert half(3) == 1.5
print("half of 3 is", half(3))
```

```{python}
#| label: fig-line
#| course_role: practice
#| eval: false
#| fig-cap: "CAPTION"
import base64
from IPython.display import Image, display

PIXEL = b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
PIXEL += b"+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
display(Image(base64.b64decode(PIXEL)))
```
"""

LESSON = (
    """\
---
title: "Lesson 1: Halves & <more>"
lang: en
jupyter: python3
---

## Reading

The survival is $S_k = \\prod_{i\\le k} \\alpha_i$, see @fig-line and @tbl-one.

$$E = 1 + \\sum_k S_k$$

::: {.callout-note}
## A heading of a callout
Errors on the draft side cost speed.
:::

::: {.callout-tip collapse="true" title="Open me"}
Folded text.
:::

```{mermaid}
%%| label: fig-flow
%%| fig-cap: "One round."
flowchart TD
    A["propose <br/> tokens"] --> B["verify"]
```

| a | b |
|---|---|
| 1 | 2 |

: A table {#tbl-one}

## Code

"""
    + CELLS.replace("CAPTION", "A dot.")
    + """
## Questions

**Q1.** Why?

::: {#q1 .course-answer points="2"}
*Your answer:*
:::

::: {.course-pagination}
[**← Previous** Lesson 0 (in preparation)]{.pagination-link .pagination-prev}
[**Next →** Start](../course/index.qmd){.pagination-link .pagination-next}
:::
"""
)

LESSON_ZH = (
    """\
---
title: "第 1 课：一半"
lang: zh
jupyter: python3
---

## 阅读

投机解码先起草，再由目标模型验证；被拒绝的 token 要回滚。见 @fig-line 。

"""
    + CELLS.replace("CAPTION", "一个点。")
    + """
## 问题

::: {#q1 .course-answer points="2"}
*你的答案：*
:::
"""
)

ANSWERS = """\
---
title: "Lesson 1: answers"
lang: en
---

## The code

```{python}
#| label: half
def half(x):
    return x / 2  # SECRET-CODE
```

## Q1

::: {#q1 .course-answer points="2"}
Because SECRET-PROSE.
:::
"""


def write_course(root: Path) -> Path:
    """Write the course under `root` and return it."""
    files = {
        "course/_quarto.yml": QUARTO,
        "course/index.qmd": INDEX,
        "course/index.zh.qmd": INDEX_ZH,
        "course/404.qmd": NOT_FOUND,
        "lessons/lesson01_tiny.qmd": LESSON,
        "lessons/lesson01_tiny.zh.qmd": LESSON_ZH,
        "solutions/lesson01/answers.qmd": ANSWERS,
        "solutions/lesson01/answers.zh.qmd": ANSWERS.replace("lang: en", "lang: zh"),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root
