// The XML that NCCL writes to NCCL_TOPO_DUMP_FILE and reads from NCCL_TOPO_FILE.
#pragma once

#include <string>

#include "core/machine/import/imported_node.h"

namespace unity {

// Elements: system > cpu (numaid, arch, vendor, modelid) > pci (busid, class, link_speed, link_width), nested where a
// switch is above, > gpu (dev, sm) > nvlink (target, count, tclass), or nic > net (name, speed in Mbit/s). Others are
// passed over. A pci element is a GPU or a NIC by its child, else by its class (0x0302.., 0x0300..; 0x02..); one with
// pci elements in it is a switch; any other is left out. The device file follows from `sm` unless given. Rates of PCIe:
// NCCL's, 0.75 GB/s for a lane of 8 GT/s and in proportion; NVLinks to switches are added up. InputError with file and
// line: malformed XML, a missing or wrong attribute, an NVLink whose two ends disagree, several hosts, no GPU.
ImportedNode import_nccl_topology(const std::string& xml, const std::string& file, const std::string& device = "");

}  // namespace unity
