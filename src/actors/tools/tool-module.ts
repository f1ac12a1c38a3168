/** Finds a tool in a module: the export that a role names. */
import { ConfigurationError, shown } from '../../errors.ts'
import { type ToolDefinition, toolDefinitionOf, usable } from '../definition/tool.ts'

/** Position of the export, as in `ToolCode`. */
interface Place {
  readonly export: string
  readonly shown: string
  readonly option: string
}

/**
 * Returns the tool with that name among a module's exports.
 *
 * @throws ConfigurationError if the export is no tool, or one that cannot work here.
 */
export function toolIn(exports: object, { export: name, shown: module, option }: Place): ToolDefinition {
  const exported: unknown = Reflect.get(exports, name)
  const tool = toolDefinitionOf(exported)
  const path = `${option}.${name === 'default' ? 'module' : 'export'}`
  if (tool) return usable(tool, path)
  const others = Object.keys(exports).filter((other) => toolDefinitionOf(Reflect.get(exports, other)))
  const advice =
    others.length > 0 ? `Tools among its exports: ${others.join(', ')}.` : 'Write: export default defineTool({ ... }).'
  const got = exported === undefined ? 'nothing' : `${shown(exported)}, which is no tool`
  throw new ConfigurationError(`${path}: the module ${module} has ${got} as its export "${name}". ${advice}`, {
    path,
    module,
    got: shown(exported),
    accepted: 'what defineTool returns',
  })
}
