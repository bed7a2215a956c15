"""`tvmagic.testing`: what test files written for TVM 0.19 import."""

import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tvmagic.testing
from refusals import refuses

import tvmagic as tvm
from tvmagic import ir, tir
from tvmagic.script import tir as T

x, y = tir.Var("x", "int32"), tir.Var("y", "int32")


def test_the_package_loads_no_pytest() -> None:
    code = "import sys, tvmagic.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_assert_allclose() -> None:
    tvm.testing.assert_allclose([1.0, 2.0], [1.0, 2.0 + 1e-9])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose([1.0, 2.0], [1.0, 2.1])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.zeros((2, 1)), np.zeros((1, 2)))


def test_assert_prim_expr_equal() -> None:
    tvm.testing.assert_prim_expr_equal(x + y, y + x)
    with refuses("testing.expressions_differ", error=ValueError):
        tvm.testing.assert_prim_expr_equal(x + y, y)


def test_assert_prim_func_equal_structural() -> None:
    f = tir.PrimFunc([], tir.Evaluate(1)).with_attr("global_symbol", "f")
    tvm.testing.assert_prim_func_equal_structural(f, f.with_attr("global_symbol", "g"))
    with pytest.raises(ValueError):
        tvm.testing.assert_prim_func_equal_structural(f, tir.PrimFunc([], tir.Evaluate(2)))


def test_check_bool_expr_is_true() -> None:
    ranges = {x: ir.Range(-3, 4), y: ir.Range(1, 5)}
    tvm.testing.check_bool_expr_is_true(x + y > -3, ranges)
    tvm.testing.check_bool_expr_is_true(x > 0, ranges, cond=x * y > 0)
    with pytest.raises(AssertionError, match="Counterexample: x = 3, y = 4"):
        tvm.testing.check_bool_expr_is_true(x + y < 7, ranges)


def run_pytest(folder: pathlib.Path, text: str, *options: str, **environment: str) -> str:
    """What pytest prints for a file of this text."""
    (folder / "test_it.py").write_text(
        "import tvmagic as tvm\nimport tvmagic.testing\nimport pytest\n" + textwrap.dedent(text)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options, "test_it.py"]
    paths = os.pathsep.join(p for p in sys.path if p)
    env = {**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    return done.stdout + done.stderr


def test_parameters_of_tests(tmp_path: pathlib.Path) -> None:
    out = run_pytest(
        tmp_path,
        """
        seen = []
        size = tvm.testing.parameter(1, 2, 3)
        name = tvm.testing.parameter(by_dict={"first": "a", "second": "b"})
        low, high = tvm.testing.parameters((0, 10), (5, 50), ids=["narrow", "wide"])

        def test_all_combinations(size, name):
            assert size in (1, 2, 3) and name in "ab"

        def test_together(low, high, size):
            assert (low, high) in ((0, 10), (5, 50))
            seen.append((low, high, size))

        def test_seen():
            assert len(seen) == 6 == len(set(seen))

        class TestInside:
            kind = tvm.testing.parameter("p", "q")
            one, two = tvm.testing.parameters((1, 2), (3, 4))

            def test_it(self, kind, one, two):
                assert two == one + 1 and kind in "pqr"

        class TestFurther(TestInside):
            kind = tvm.testing.parameter("r")
        """,
        "-vv",
    )
    assert "19 passed" in out, out
    assert "test_all_combinations[1-first]" in out or "test_all_combinations[first-1]" in out, out
    assert "wide" in out


def test_fixtures_keep_their_values(tmp_path: pathlib.Path) -> None:
    out = run_pytest(
        tmp_path,
        """
        calls = []
        size = tvm.testing.parameter(1, 2)

        @tvm.testing.fixture(cache_return_value=True)
        def table(size):
            calls.append(size)
            return [0] * size

        @tvm.testing.fixture
        def plain():
            return 7

        def test_one(table, size):
            table.append(1)
            assert len(table) == size + 1

        def test_two(table, size, plain):
            assert len(table) == size and plain == 7

        def test_calls():
            assert sorted(calls) == [1, 2]

        class TestInside:
            @tvm.testing.fixture(cache_return_value=True)
            def own(self, size):
                return {"size": size}

            def test_own(self, own, size):
                assert own == {"size": size}
        """,
    )
    assert "7 passed" in out, out


def test_targets_and_requirements(tmp_path: pathlib.Path) -> None:
    out = run_pytest(
        tmp_path,
        """
        @tvm.testing.parametrize_targets("llvm", "cuda", "llvm -mcpu=x86-64")
        def test_targets(target, dev):
            assert target.startswith("llvm") and dev == tvm.cpu(0)

        @tvm.testing.parametrize_targets
        def test_default(target, dev):
            assert target == "llvm"

        @tvm.testing.requires_llvm
        def test_llvm():
            pass

        @tvm.testing.requires_gpu
        def test_gpu():
            assert False

        @tvm.testing.requires_cuda()
        class TestCuda:
            def test_it(self):
                assert False

        @tvm.testing.requires_package("numpy", "a_package_that_is_not_there")
        def test_package():
            assert False

        @tvm.testing.skip_if_32bit(reason="needs long pointers")
        @tvm.testing.requires_package("numpy")
        def test_runs():
            assert tvm.testing.device_enabled("llvm") and not tvm.testing.device_enabled("cuda")
            assert tvm.testing.enabled_targets() == [("llvm", tvm.cpu(0))]

        if __name__ == "__main__":
            tvm.testing.main()
        """,
        TVM_TEST_TARGETS="",
    )
    assert "5 passed, 4 skipped" in out, out
    assert "a_package_that_is_not_there" in out and "cuda" in out
    alone = subprocess.run(
        [sys.executable, "test_it.py", "-q", "-k", "runs"], cwd=tmp_path, capture_output=True, text=True
    )
    assert alone.returncode == 0 and "1 passed" in alone.stdout


def test_targets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_TEST_TARGETS", "cuda;llvm -mcpu=x86-64")
    assert tvm.testing.enabled_targets() == [("llvm -mcpu=x86-64", tvm.cpu(0))]
    monkeypatch.setenv("TVM_TEST_TARGETS", "cuda")
    assert tvm.testing.enabled_targets() == [] and not tvm.testing.device_enabled("llvm")


def test_the_plugin_runs_tests_for_each_target(tmp_path: pathlib.Path) -> None:
    out = run_pytest(
        tmp_path,
        """
        def test_it(target, dev):
            assert target == "llvm" and dev == tvm.cpu(0)
        """,
        "-p",
        "tvmagic.testing.plugin",
        TVM_TEST_TARGETS="",
    )
    assert "1 passed" in out, out


class TestUndecorated(tvm.testing.CompareBeforeAfter):
    transform = tir.transform.Simplify()

    def before(A: T.Buffer((1,), "int32")):  # type: ignore[misc]
        A[0] = 1 + 2 + A[0] * 0

    def expected(A: T.Buffer((1,), "int32")):  # type: ignore[misc]
        A[0] = 3


class TestMethods(tvm.testing.CompareBeforeAfter):
    value = tvm.testing.parameter(1, 2)

    def transform(self):
        return lambda mod: tir.transform.Simplify()(mod)

    def before(self, value):
        @T.prim_func
        def func(A: T.Buffer((1,), "int32")):
            A[0] = value + 0 * A[0]

        return func

    def expected(self, value):
        return self_made(value)


def self_made(value: int) -> tir.PrimFunc:
    @T.prim_func
    def func(A: T.Buffer((1,), "int32")):
        A[0] = value

    return func


class TestModules(tvm.testing.CompareBeforeAfter):
    @tvm.testing.fixture
    def transform(self):
        return tir.transform.Simplify()

    class before:
        def main(A: T.Buffer((1,), "int32")):  # type: ignore[misc]
            A[0] = A[0] + 2 - 1

        @T.prim_func
        def other(A: T.Buffer((1,), "int32")):
            A[0] = 4 - 2

    class expected:
        def main(A: T.Buffer((1,), "int32")):  # type: ignore[misc]
            A[0] = A[0] + 1

        def other(A: T.Buffer((1,), "int32")):  # type: ignore[misc]
            A[0] = 2


class TestErrors(tvm.testing.CompareBeforeAfter):
    def transform(self):
        def change(mod):
            raise tvm.TVMError("no")

        return change

    before = self_made(1)
    expected = tvm.TVMError


class TestFixtures(tvm.testing.CompareBeforeAfter):
    check_well_formed = False
    transform = tir.transform.Simplify()

    @pytest.fixture
    def before(self):
        return self_made(5)

    expected = self_made(5)


def test_a_wrong_program_is_shown(tmp_path: pathlib.Path) -> None:
    out = run_pytest(
        tmp_path,
        """
        from tvmagic.script import tir as T

        class TestWrong(tvm.testing.CompareBeforeAfter):
            transform = tvm.tir.transform.Simplify()

            def before(A: T.Buffer((1,), "int32")):
                A[0] = 1 + (A[0] - A[0])

            def expected(A: T.Buffer((1,), "int32")):
                A[0] = 2

        class TestNoError(tvm.testing.CompareBeforeAfter):
            transform = tvm.tir.transform.Simplify()

            def before(A: T.Buffer((1,), "int32")):
                A[0] = 1

            expected = ValueError
        """,
    )
    assert "2 failed" in out and "A[0] = 1\n" in out and "A[0] = 2" in out and "A[0] - A[0]" in out, out
    assert "raised no ValueError" in out


def test_gradients_are_compared_with_differences() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    tvm.testing.check_numerical_grads(lambda a, b: (a * a * b).sum(), [x, y], [2 * x * y, x * x])
    tvm.testing.check_numerical_grads(lambda a: a * a, {"a": x}, {"a": 2 * x})
    with pytest.raises(AssertionError, match="`0`"):
        tvm.testing.check_numerical_grads(lambda a: (a * a).sum(), [x], [x])
    with refuses("testing.gradient_shape_differs", error=ValueError):
        tvm.testing.check_numerical_grads(lambda a: (a * a).sum(), [x], [x[:1]])


def test_small_helpers() -> None:
    assert tvm.testing.identity_after(3, 0.0) == 3
    assert tvm.testing.strtobool("Yes") == 1 and tvm.testing.strtobool("off") == 0
    with pytest.raises(ValueError):
        tvm.testing.strtobool("perhaps")
    assert tvm.testing.get_dtype_range("int8") == (-128, 127)
    assert tvm.testing.get_dtype_range("float16")[1] == 65504
    with pytest.raises(TypeError):
        tvm.testing.get_dtype_range("bool")
    code = "import tvmagic.testing; tvmagic.testing.terminate_self()"
    assert subprocess.run([sys.executable, "-c", code]).returncode != 0
