// SPDX-License-Identifier: Apache-2.0
// What a backend answers when it does not override: refusals, and the header of host workspaces.

#include "backends/backend.hpp"

#include <cstring>
#include <string>

#include "core/message.hpp"

namespace moesaic {

PackedWeights detail::GroupedGemmImpl::pack_weights(const Operand& /*w*/,
                                                    const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "pack_weights: " + std::string(name()) +
                                          " has no packed layout; pass the weights as b");
}

namespace backends {

void Backend::swiglu(const ActivationArgs& /*args*/, const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "swiglu: backend " + status().name + " has no activation");
}

void Backend::dswiglu(const ActivationArgs& /*args*/, const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "dswiglu: backend " + status().name + " has no activation");
}

core::WorkspaceHeader Backend::read_header(const Workspace& workspace,
                                           const Stream& /*stream*/) const {
  core::WorkspaceHeader header;
  std::memcpy(&header, workspace.bytes.data(), sizeof(header));
  return header;
}

void Backend::write_header(const core::WorkspaceHeader& header, const Workspace& workspace,
                           const Stream& /*stream*/) const {
  std::memcpy(workspace.bytes.data(), &header, sizeof(header));
}

}  // namespace backends
}  // namespace moesaic
