import json

import pytest
from tokenizers import Tokenizer as Backend

from kernels.runtime import InputError
from lessons.lib.model.tokenizer import Tokenizer, tokenizer_from_folder
from tests.engine_models import smollm, write_tokenizer

TEXTS = [
    "Hello, world",
    "  two spaces, a tab\tand a\n\nblank line  ",
    "12345 is 12 345",
    "x =   42\n\n  7",
    "naïve café, 你好, 🙂",
    "def f(a_b):\n    return a_b**2  # 'why'",
]


@pytest.mark.parametrize("text", TEXTS)
def test_smollm_round_trip(text):
    tokenizer = smollm("bfloat16").tokenizer
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= token < tokenizer.vocab_size for token in ids)


def test_smollm_splits_every_digit():
    tokenizer = smollm("bfloat16").tokenizer
    assert [tokenizer.decode([token]) for token in tokenizer.encode("2048")] == list("2048")


def test_smollm_chat_format():
    tokenizer = smollm("bfloat16").tokenizer
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])
    start, end = 1, 2
    assert ids.count(start) == 3 and ids.count(end) == 2 and ids[0] == start
    assert tokenizer.decode(ids).startswith("system\nYou are a helpful AI assistant named SmolLM")
    assert tokenizer.decode(ids).endswith("user\nHi\nassistant\n")
    own = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    )
    assert "SmolLM" not in tokenizer.decode(own)
    assert tokenizer.eos_token_ids == {end}


def test_folder_reads_template_and_every_end_token(tmp_path):
    write_tokenizer(tmp_path, 10)
    tokenizer = tokenizer_from_folder(tmp_path)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "<4> <5>"}]) == [4, 5, 1]
    assert tokenizer.eos_token_ids == {1}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 7]}))
    (tmp_path / "chat_template.jinja").write_text("<9>")
    tokenizer = tokenizer_from_folder(tmp_path)
    assert tokenizer.eos_token_ids == {1, 7}
    assert tokenizer.apply_chat_template([]) == [9]


def test_text_form_keeps_everything(tmp_path):
    write_tokenizer(tmp_path, 10)
    one = tokenizer_from_folder(tmp_path)
    two = Tokenizer.from_json(one.to_json())
    messages = [{"role": "user", "content": "<4>"}]
    assert two.apply_chat_template(messages) == one.apply_chat_template(messages)
    assert two.eos_token_ids == one.eos_token_ids and two.encode("<3>") == [3]


@pytest.mark.parametrize(
    "template, message",
    [
        (None, "no chat template"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ ''.__class__.__mro__ }}{{ ().__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{% if %}", "chat template"),
    ],
)
def test_bad_templates(tmp_path, template, message):
    write_tokenizer(tmp_path, 4)
    backend = Backend.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(backend, frozenset(), template, {})
    with pytest.raises(InputError, match=message):
        tokenizer.apply_chat_template([{"role": "user", "content": "x"}])
