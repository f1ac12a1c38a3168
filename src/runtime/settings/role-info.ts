/** Data of a role that its thread gets to see: data alone. */
import { type ModelOptions, modelOptionsOf } from '../../actors/definition/model-options.ts'
import type { AgentRole, RoleInfo } from '../../actors/definition/role.ts'

/** Returns a frozen copy of the data of a checked role. Fields that the role leaves out are absent in the copy too. */
export function infoFrom(role: AgentRole): RoleInfo {
  // The type makes sure that a new field of RoleInfo is not forgotten here.
  const info: { [Key in Exclude<keyof RoleInfo, keyof ModelOptions>]-?: RoleInfo[Key] } & ModelOptions = {
    name: role.name,
    description: role.description,
    systemPrompt: role.systemPrompt,
    capabilities: role.capabilities,
    skills: role.skills,
    verbs: role.verbs,
    model: role.model,
    maxTokens: role.maxTokens,
    maxRounds: role.maxRounds,
    maxParallelToolCalls: role.maxParallelToolCalls,
    delegationAllowed: role.delegationAllowed,
    canDelegateTo: role.canDelegateTo,
    canBeDelegatedTo: role.canBeDelegatedTo,
    escalateTo: role.escalateTo,
    sharedWith: role.sharedWith,
    priority: role.priority,
    weight: role.weight,
    trust: role.trust,
    data: role.data,
    accepts: role.accepts,
    ...modelOptionsOf(role),
  }
  const copy = structuredClone(info)
  freeze(copy)
  return copy
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const [key, field] of Object.entries(value)) {
    if (field === undefined) Reflect.deleteProperty(value, key)
    else freeze(field)
  }
  Object.freeze(value)
}
