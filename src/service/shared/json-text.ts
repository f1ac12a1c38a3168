/** Results as JSON text. */

import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import type { MessagePart, MultiAgentResult } from '../../index.ts'
import { MEDIA, toldPart } from '../../runtime/runs/told-events.ts'
import { type OrchestrationTrace, sequenceDiagram } from '../../runtime/runs/trace.ts'
import { ConfigurationError } from '../../shared/errors.ts'

/** Replaces parts in JSON, wherever they stand. */
const byReference = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && MEDIA.has(Reflect.get(value, 'type'))
    ? toldPart(value as MessagePart)
    : value

/**
 * Indented, with an end of line. Errors become `{ code, message, details }`, errors of others `{ name, message }`.
 * Large parts are told by reference.
 */
export function jsonText(value: unknown): string {
  const plain = (_key: string, field: unknown) =>
    field instanceof Error ? { name: field.name, message: field.message } : byReference(field) // toJSON came first
  return `${JSON.stringify(value, plain, 2)}\n`
}

/** The whole of a result: what its `toJSON()` leaves out for brevity too. */
export function resultText(result: MultiAgentResult): string {
  const { messageHistory, orchestrationTrace, blackboardState, contributions } = result
  return jsonText({ ...result.toJSON(), messageHistory, orchestrationTrace, blackboardState, contributions })
}

/** The text of a trace file: a Mermaid diagram in `.mmd` and (as a code block) `.md`, otherwise JSON. */
export function traceText(file: string, trace: OrchestrationTrace): string {
  switch (extname(file).toLowerCase()) {
    case '.mmd':
      return sequenceDiagram(trace)
    case '.md':
      return `\`\`\`mermaid\n${sequenceDiagram(trace)}\`\`\`\n`
    default:
      return jsonText(trace)
  }
}

/**
 * Checks that the file can be there, before a run that may take long, and returns what writes it.
 *
 * @throws ConfigurationError when its folder is missing, or the name is a folder's.
 */
export function traceFile(file: string, folder: string): (trace: OrchestrationTrace) => Promise<void> {
  const path = resolve(folder, file)
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ConfigurationError(`--trace: "${file}" is a folder; give the name of a file.`, { file })
  }
  if (!statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory()) {
    throw new ConfigurationError(`--trace: the folder of "${file}" does not exist; make it first.`, { file })
  }
  return (trace) => writeFile(path, traceText(path, trace))
}
