/** Adds an entry to the text of an agents.yaml. The rest of the text stays, with its comments. */
import { type Document, isMap, isSeq, parseDocument, type YAMLMap } from 'yaml'
import type { AgentType } from '../actors/definition/context/context.ts'
import type { AgentRole } from '../actors/definition/role.ts'
import { isObject } from '../runtime/checks/checks.ts'
import { refused } from '../runtime/checks/refused.ts'
import { OPAQUE } from './read-yaml.ts'

const GRANTS = ['can_delegate_to', 'canDelegateTo']

/**
 * Returns the text with an entry for that type. `maker`, if it has an entry itself, gets the right to delegate to it.
 *
 * @throws ConfigurationError for a name that is taken, and for a text whose agents cannot be added to.
 */
export function withEntry(text: string, { name, ...type }: AgentType, maker: AgentRole | undefined): string {
  const document = parseDocument(text, { uniqueKeys: false, logLevel: 'silent' })
  const agents = document.get('agents', true)
  if (!isMap(agents))
    throw refused('agents', agents, 'entries that stand there themselves', 'Write them out, without an alias.')
  if (agents.has(name)) throw refused('type.name', name, 'a name that no agent has')
  agents.set(document.createNode(name), document.createNode(snakeCased(type), { aliasDuplicateObjects: false }))
  if (maker && agents.has(maker.name)) allow(document, agents, maker, name)
  return written(document, text)
}

function allow(document: Document, agents: YAMLMap, { name, canDelegateTo = [] }: AgentRole, to: string): void {
  const entry = agents.get(name, true)
  const key = isMap(entry) ? (GRANTS.find((each) => entry.has(each)) ?? GRANTS[0]!) : GRANTS[0]!
  const list = isMap(entry) ? entry.get(key, true) : undefined
  if (isSeq(list)) return list.add(document.createNode(to))
  const own = document.createNode([...canDelegateTo, to], { flow: true })
  if (isMap(entry)) entry.set(key, own)
  else agents.set(name, document.createNode({ [key]: own }))
}

/** Writes the document in the style of its author, as far as that can be detected. */
function written(document: Document, before: string): string {
  const [, indent = '  '] = /^( {1,9})\S/m.exec(before) ?? []
  const text = document.toString({
    lineWidth: 0,
    indent: indent.length,
    flowCollectionPadding: /[[{] \S/.test(before),
  })
  return before.includes('\r\n') ? text.replaceAll(/\r?\n/g, '\r\n') : text
}

/** Returns options with their keys in snake_case, as in documents. */
function snakeCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCased)
  if (!isObject(value)) return value
  const fields = Object.entries(value).map(([key, field]) => [
    key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    OPAQUE.has(key) ? field : snakeCased(field),
  ])
  return Object.fromEntries(fields)
}
