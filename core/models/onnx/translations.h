// One function for each ONNX operator that Unity translates, named in translations.def.
#pragma once

#include <string>
#include <vector>

#include "core/models/onnx/context.h"

namespace unity {

#define UNITY_ONNX(op) void onnx_##op(OnnxContext& c);
#include "core/models/onnx/translations.def"
#undef UNITY_ONNX

using OnnxTranslator = void (*)(OnnxContext&);
// nullptr when there is none.
OnnxTranslator find_onnx_translator(const std::string& op);

}  // namespace unity
