"""The engine in its own thread: the same tokens, stamped in order, and nothing left behind."""

import asyncio

import pytest
from batch_kit import make_cases, tiny_engine

from kernels.kv_integrity import check_integrity
from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.serve import engine_thread
from lessons.lib.serve.engine_thread import EngineStopped, EngineThread, Job

GREEDY = SamplingParams()


def job(ids, count=20, sampling=GREEDY, **settings):
    return Job(" ".join(f"<{i}>" for i in ids), count, sampling, **settings)


def text_of(ids):
    return "".join(f"<{i}>" for i in ids)


async def read(thread, a_job):
    ticket = await thread.submit(a_job)
    return [emission async for emission in ticket]


def pages(engine):
    check_integrity(engine.pool, engine.sequences)
    return engine.pool.allocator.num_owned, len(engine.running), engine.has_work


def is_idle(state):
    return state == (0, 0, False)


@pytest.mark.parametrize("method", ["none", "ngram"])
def test_concurrent_jobs_get_the_tokens_they_would_get_alone(method):
    cases = make_cases(6, seed=3, methods=("none",))
    jobs = [job(c.prompt, c.max_new_tokens, c.sampling) for c in cases]
    alone = [
        tiny_engine().generate(c.prompt, c.max_new_tokens, c.sampling).token_ids for c in cases
    ]

    async def work(thread):
        answers = await asyncio.gather(*(read(thread, each) for each in jobs))
        return answers, await thread.call(pages)

    with EngineThread(tiny_engine(), method, depth=4) as thread:
        answers, state = asyncio.run(work(thread))
    for answer, expected in zip(answers, alone, strict=True):
        assert "".join(e.text for e in answer) == text_of(expected)
        assert sum(e.num_tokens for e in answer) == len(expected)
        times = [e.time_s for e in answer]
        assert times == sorted(times)
        assert [bool(e.finish_reason) for e in answer] == [False] * (len(answer) - 1) + [True]
    assert is_idle(state)
    if method == "none":
        assert all(e.num_tokens == 1 for answer in answers for e in answer)


def test_observers_see_every_step_and_text_can_be_left_out():
    seen = []

    async def work(thread):
        return await read(thread, job([5, 6, 7], 12, wants_text=False))

    with EngineThread(tiny_engine(), observers=[lambda _, step: seen.append(step)]) as thread:
        answer = asyncio.run(work(thread))
    assert len(seen) == len(answer) and all(e.text == "" for e in answer)
    assert sum(r.emitted for step in seen for r in step.rounds.values()) == len(answer) - 1


def test_a_cancelled_job_frees_its_pages_and_leaves_its_neighbour_alone():
    prompt = list(range(10, 60))
    alone = tiny_engine().generate(prompt, 30).token_ids

    async def work(thread):
        leaving = await thread.submit(job([3, 4, 5], 200))
        staying = asyncio.create_task(read(thread, job(prompt, 30)))
        async for _ in leaving:
            break
        leaving.cancel()
        leaving.cancel()  # once too often does no harm
        answer = await staying
        return answer, await thread.call(pages)

    with EngineThread(tiny_engine()) as thread:
        answer, state = asyncio.run(work(thread))
    assert "".join(e.text for e in answer) == text_of(alone) and is_idle(state)


def test_who_leaves_before_the_job_was_accepted_leaves_nothing_behind():
    async def work(thread):
        waiting = asyncio.create_task(thread.submit(job([3, 4, 5], 200)))
        await asyncio.sleep(0)  # it has posted its job by now
        waiting.cancel()
        while not is_idle(await thread.call(pages)):
            await asyncio.sleep(0)
        return await read(thread, job([1, 2, 3], 2))

    with EngineThread(tiny_engine()) as thread:
        assert sum(e.num_tokens for e in asyncio.run(work(thread))) == 2


def test_what_the_engine_cannot_run_is_an_input_error():
    async def work(thread):
        with pytest.raises(InputError, match="exceed the model's context"):
            await thread.submit(job([1], 1000))
        with pytest.raises(ZeroDivisionError):
            await thread.call(lambda _: 1 / 0)
        return await read(thread, job([1, 2], 3))

    with EngineThread(tiny_engine()) as thread:
        assert asyncio.run(work(thread))


def test_stopping_tells_those_who_wait_and_refuses_those_who_come():
    async def work(thread):
        ticket = await thread.submit(job([1, 2, 3], 200))
        thread.stop()
        with pytest.raises(EngineStopped, match="was stopped"):
            async for _ in ticket:
                pass
        with pytest.raises(EngineStopped):
            await thread.submit(job([1], 2))
        with pytest.raises(EngineStopped):
            await thread.call(pages)
        ticket.cancel()

    engine = tiny_engine()
    with EngineThread(engine) as thread:
        asyncio.run(work(thread))
        assert not thread.is_alive
    assert is_idle(pages(engine))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_step_reaches_everybody(monkeypatch):
    class Broken:
        memory_bytes = 0

        def propose(self, context_ids, num_draft_tokens):
            raise KeyError("a bug")

        def forget(self):
            pass

    monkeypatch.setattr(engine_thread, "make_proposer", lambda *_: Broken())

    async def work(thread):
        with pytest.raises(EngineStopped, match="broke down: KeyError"):
            await read(thread, job([1, 2, 3], 20))
        with pytest.raises(EngineStopped, match="broke down"):
            await thread.submit(job([1], 2))

    with EngineThread(tiny_engine(), "ngram", 2) as thread:
        asyncio.run(work(thread))
        assert not thread.is_alive


def test_a_reader_whose_loop_has_gone_does_not_stop_the_engine():
    async def leave(thread):
        await thread.submit(job([1, 2, 3], 60))

    async def stay(thread):
        return await read(thread, job([4, 5], 60))

    with EngineThread(tiny_engine()) as thread:
        asyncio.run(leave(thread))
        assert sum(e.num_tokens for e in asyncio.run(stay(thread))) > 0
        assert thread.is_alive
