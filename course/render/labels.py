"""The few words that the renderer itself adds to a page or notebook, in both languages."""

from __future__ import annotations

CALLOUTS = ("note", "tip", "warning", "important", "caution")

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "note": "Note",
        "tip": "Tip",
        "warning": "Warning",
        "important": "Important",
        "caution": "Caution",
        "fig": "Figure",
        "tbl": "Table",
        "contents": "On this page",
        "lessons": "Lessons",
        "pages": "Course",
        "skip": "Skip to the text",
        "menu": "Menu",
        "search": "Search",
        "search_hint": "Search the course",
        "no_results": "Nothing found",
        "results": "results",
        "theme": "Light or dark",
        "previous": "Previous",
        "next": "Next",
        "pagination": "Previous and next lesson",
        "language": "中文",
        "exercise": "Exercise: fill in the blanks",
        "practice": "Uses your answer",
        "check": "Check",
        "points": "points",
        "point": "point",
        "written": "Written answer",
        "output": "Output",
        "answers": "Reference answers and code (instructor edition)",
        "instructor": "Instructor edition",
    },
    "zh": {
        "note": "说明",
        "tip": "提示",
        "warning": "警告",
        "important": "重要",
        "caution": "小心",
        "fig": "图",
        "tbl": "表",
        "contents": "本页目录",
        "lessons": "课程",
        "pages": "说明",
        "skip": "跳到正文",
        "menu": "菜单",
        "search": "搜索",
        "search_hint": "搜索课程内容",
        "no_results": "没有找到",
        "results": "条结果",
        "theme": "浅色或深色",
        "previous": "上一课",
        "next": "下一课",
        "pagination": "上一课与下一课",
        "language": "English",
        "exercise": "练习：填空",
        "practice": "使用你的答案",
        "check": "检查",
        "points": "分",
        "point": "分",
        "written": "书面回答",
        "output": "输出",
        "answers": "参考答案与代码（教师版）",
        "instructor": "教师版",
    },
}


def words(lang: str) -> dict[str, str]:
    """The words of `lang`; English where the language is not known."""
    return WORDS.get(lang, WORDS["en"])
