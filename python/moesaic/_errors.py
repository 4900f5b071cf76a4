# SPDX-License-Identifier: Apache-2.0
"""What moesaic raises. Each message names the argument, what was expected and what came."""


class Error(RuntimeError):
    """Base of all errors of moesaic."""


class InvalidArgument(Error, ValueError):
    """An argument breaks the contract."""


class Unsupported(Error):
    """A legal request that no implementation here can serve."""


class WorkspaceTooSmall(Error):
    """A workspace is missing, too small or misaligned."""


class DeviceFailure(Error):
    """The device or its driver reported an error, or there is no such device."""


class InternalError(Error):
    """Out of host memory, or a fault of moesaic itself."""


BY_STATUS = {1: InvalidArgument, 2: Unsupported, 3: WorkspaceTooSmall, 4: DeviceFailure,
             5: InternalError}


def refuse(argument, expected, got):
    raise InvalidArgument(f"{argument}: expected {expected}, got {got}")
