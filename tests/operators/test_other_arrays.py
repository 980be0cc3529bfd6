"""Arrays of other libraries go into operators without a copy, and results come out as arrays of the same library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.operators import CopyWarning, Operator
from pegbox.operators.arrays import as_array, as_output, like

TARGET = "llvm -num-cores 1"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)


class Interface:
    """An array of a library that has NumPy's interface alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._array.__array_interface__


class Exported(Interface):
    """An array of a library that has DLPack, and its own name space."""

    device = "npu:0"

    def __init__(self, array: np.ndarray[Any, Any], kind: int = 1) -> None:
        super().__init__(array)
        self._kind = kind

    def __dlpack__(self, **options: Any) -> Any:
        if self._kind != 1:
            raise BufferError("Unsupported device in DLTensor.")  # NumPy says so of such memory
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, 0

    def __array_namespace__(self) -> Any:
        class Library:
            @staticmethod
            def from_dlpack(array: np.ndarray[Any, Any]) -> Exported:
                return Exported(array)

        return Library


@pytest.fixture(scope="module")
def product() -> Operator:
    return pb.operator("matmul", target=TARGET)


def test_arrays_with_numpys_interface_are_taken_as_they_are(product: Operator) -> None:
    assert np.shares_memory(as_array("it", Interface(A)), A)
    np.testing.assert_allclose(product(Interface(A), Interface(B)), A @ B)
    c = np.empty((3, 5), np.float32)
    out = Interface(c)
    assert product(A, B, out=out) is out
    np.testing.assert_allclose(c, A @ B)


def test_arrays_with_dlpack_come_back_as_their_own_kind(product: Operator) -> None:
    assert np.shares_memory(as_array("it", Exported(A)), A)
    result = product(Exported(A), B)
    assert isinstance(result, Exported)
    np.testing.assert_allclose(result._array, A @ B)
    assert isinstance(product(A, Exported(B)), np.ndarray), "the first input decides"


def test_arrays_of_other_devices_are_refused(product: Operator) -> None:
    with pytest.raises(ArgumentError, match=r"argument 1, a Exported: .*; it is on npu:0: copy it .*cpu\(\)"):
        product(A, Exported(B, kind=2))


class TestTorch:
    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    def test_tensors_go_in_without_a_copy_and_tensors_come_out(self, torch: Any, product: Operator) -> None:
        a, b = torch.from_numpy(A), torch.from_numpy(B)
        assert np.shares_memory(as_array("it", a), A)
        result = product(a, b)
        assert isinstance(result, torch.Tensor)
        assert torch.allclose(result, a @ b)
        assert isinstance(product(A, b), np.ndarray)

    def test_a_tensor_is_written_to(self, torch: Any, product: Operator) -> None:
        out = torch.zeros(3, 5)
        assert product(torch.from_numpy(A), torch.from_numpy(B), out=out) is out
        np.testing.assert_allclose(out.numpy(), A @ B)
        assert as_output("it", out).flags.writeable

    def test_tensors_that_require_a_gradient_are_refused(self, torch: Any, product: Operator) -> None:
        with pytest.raises(ArgumentError, match=r"argument 0, a Tensor: .*detach"):
            product(torch.ones(3, 4, requires_grad=True), B)

    def test_tensors_of_other_devices_are_refused(self, torch: Any, product: Operator) -> None:
        with pytest.raises(ArgumentError, match=r"argument 0, a Tensor: .*meta"):
            product(torch.ones(3, 4, device="meta"), B)

    def test_views_are_copied_with_a_note(self, torch: Any) -> None:
        a = torch.from_numpy(np.ascontiguousarray(A.T)).T
        with pytest.warns(CopyWarning, match="argument 0"):
            result = pb.operator("matmul", target=TARGET)(a, torch.from_numpy(B))
        np.testing.assert_allclose(result.numpy(), A @ B)

    def test_bfloat16_goes_in_and_out(self, torch: Any) -> None:
        a, b = torch.from_numpy(A).bfloat16(), torch.from_numpy(B).bfloat16()
        array = as_array("it", a)
        assert array.dtype.name == "bfloat16"
        assert array.__array_interface__["data"][0] == a.data_ptr()
        product = pb.operator("matmul", target=TARGET)
        result = product(a, b)
        assert result.dtype == torch.bfloat16
        assert torch.allclose(result.float(), (a.float() @ b.float()), rtol=0.05)
        out = torch.zeros(3, 5, dtype=torch.bfloat16)
        assert product(a, b, out=out) is out
        assert torch.equal(out, result)

    def test_scalars_and_integers_come_out_as_tensors(self, torch: Any) -> None:
        place, value = pb.operator("row_argmax", target=TARGET)(torch.from_numpy(A))
        assert place.dtype == torch.int32
        assert value.dtype == torch.float32
        assert pb.operator("norm", target=TARGET)(torch.from_numpy(A)).shape == ()

    def test_a_packed_tensor_keeps_the_kind(self, torch: Any, product: Operator) -> None:
        packed = product.pack(torch.from_numpy(B))
        assert isinstance(product(torch.from_numpy(A), packed), torch.Tensor)


class TestJax:
    @pytest.fixture
    def jnp(self) -> Any:
        return pytest.importorskip("jax.numpy")

    def test_arrays_go_in_and_come_out(self, jnp: Any, product: Operator) -> None:
        result = product(jnp.asarray(A), jnp.asarray(B))
        assert type(result) is type(jnp.asarray(A))
        np.testing.assert_allclose(np.asarray(result), A @ B)

    def test_they_cannot_be_written_to(self, jnp: Any, product: Operator) -> None:
        with pytest.raises(ArgumentError, match="cannot be written to"):
            product(A, B, out=jnp.zeros((3, 5)))

    def test_bfloat16_goes_in_and_out(self, jnp: Any) -> None:
        a, b = jnp.asarray(A).astype("bfloat16"), jnp.asarray(B).astype("bfloat16")
        result = pb.operator("matmul", target=TARGET)(a, b)
        assert str(result.dtype) == "bfloat16"


def test_numpys_own_come_back_as_they_are() -> None:
    assert like(A, B) is B
