"""The store is bounded in bytes and lets go of what was not used for longest."""

import threading

from studio.store import BoundedStore


def test_bytes_never_exceed_the_capacity() -> None:
    store: BoundedStore[int, str] = BoundedStore(100)
    for key in range(50):
        store.put(key, "value", 7 + key % 5)
        assert store.used <= 100
    assert len(store) > 5


def test_what_was_used_last_stays() -> None:
    store: BoundedStore[str, int] = BoundedStore(3)
    for key in "abc":
        store.put(key, 1, 1)
    assert store.get("a") == 1
    store.put("d", 1, 1)
    assert store.get("b") is None
    assert store.get("a") == 1


def test_a_value_beyond_the_whole_capacity_is_not_kept_and_drops_nothing_else() -> None:
    store: BoundedStore[str, int] = BoundedStore(3)
    store.put("small", 1, 2)
    store.put("large", 2, 4)
    assert store.get("large") is None
    assert store.get("small") == 1


def test_a_replaced_value_counts_once() -> None:
    store: BoundedStore[str, int] = BoundedStore(10)
    store.put("a", 1, 6)
    store.put("a", 2, 7)
    assert store.used == 7
    assert store.get("a") == 2


def test_threads_leave_the_count_right() -> None:
    store: BoundedStore[int, int] = BoundedStore(500)

    def work(start: int) -> None:
        for i in range(300):
            store.put((start + i) % 90, i, 10)
            store.get(i % 90)

    threads = [threading.Thread(target=work, args=(k * 17,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.used == 10 * len(store) <= 500


def test_put_names_what_was_let_go() -> None:
    store: BoundedStore[str, int] = BoundedStore(3)
    assert [store.put(key, 1, 1) for key in "abc"] == [(), (), ()]
    assert store.put("d", 1, 2) == ("a", "b")
    assert store.put("large", 1, 4) == ("large",)


def test_what_is_dropped_frees_its_bytes() -> None:
    store: BoundedStore[tuple[str, int], int] = BoundedStore(10)
    for key in (("a", 1), ("b", 1), ("a", 2)):
        store.put(key, 1, 2)
    store.drop(lambda key: key[0] == "a")
    assert (store.used, len(store)) == (2, 1)
    assert store.get(("b", 1)) == 1
