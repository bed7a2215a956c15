"""What tests of TensorIR programs share, under TVM's names. Only fixtures and marks need pytest."""

# pyright: reportUnusedImport=false
# What is imported here is what the package offers.

from typing import NoReturn as _NoReturn

from tvmagic import advice as _advice
from tvmagic.compat.testing import utils
from tvmagic.compat.testing.checks import (
    assert_allclose,
    assert_prim_expr_equal,
    assert_prim_func_equal_structural,
    check_bool_expr_is_true,
)
from tvmagic.compat.testing.compare import CompareBeforeAfter
from tvmagic.compat.testing.fixtures import fixture, parameter, parameters
from tvmagic.compat.testing.requirements import (
    Feature,
    device_enabled,
    enabled_targets,
    exclude_targets,
    known_failing_targets,
    parametrize_targets,
    requires_aarch64_sme,
    requires_aarch64_sve,
    requires_adreno_opencl,
    requires_arm_dot,
    requires_cmsisnn,
    requires_cublas,
    requires_cuda,
    requires_cuda_compute_version,
    requires_cudagraph,
    requires_cudnn,
    requires_ethosn,
    requires_gpu,
    requires_hexagon,
    requires_libtorch,
    requires_llvm,
    requires_llvm_minimum_version,
    requires_matrixcore,
    requires_metal,
    requires_micro,
    requires_nvcc_version,
    requires_nvptx,
    requires_opencl,
    requires_openclml,
    requires_package,
    requires_python_minimum_version,
    requires_rocm,
    requires_rpc,
    requires_tensorcore,
    requires_vulkan,
    requires_wmma,
    requires_x86,
    requires_x86_avx512,
    requires_x86_vnni,
    skip_if_32bit,
    slow,
    uses_gpu,
)
from tvmagic.compat.testing.utils import (
    check_numerical_grads,
    echo,
    get_dtype_range,
    identity_after,
    install_request_hook,
    main,
    nop,
    object_use_count,
    strtobool,
    terminate_self,
)


def __getattr__(name: str) -> _NoReturn:
    raise AttributeError(f"module `tvmagic.testing` has no name `{name}`{_advice('tvmagic.testing', name)}")
