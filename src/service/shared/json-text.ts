/** Results as JSON text. */

import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import type { AgentMessage, MessagePart, MultiAgentResult, RuntimeEvent } from '../../index.ts'
import { referenceIn, type StoredPart, storedForm } from '../../mailbox/stored-parts.ts'
import { type OrchestrationTrace, sequenceDiagram } from '../../runtime/runs/trace.ts'
import { ConfigurationError } from '../../shared/errors.ts'

/*
 * Parts of messages as a service tells of them: a part whose bytes are stored once has its hash, its bytes and its
 * media type, as the log has it. So a large image is not written again for each message that has it.
 */

export type ToldPart = MessagePart | (Omit<Exclude<MessagePart, { type: 'text' }>, 'data'> & StoredPart)

const MEDIA: ReadonlySet<unknown> = new Set(['image', 'audio', 'file'])

/** Returns the part by reference if its bytes are stored, else the part itself. The bytes are not read. */
function toldPart(part: MessagePart): ToldPart {
  const form = MEDIA.has(part.type) ? storedForm(part) : undefined
  const stored = form && referenceIn(form)
  if (!stored || form.type === 'text') return part
  const { data: _, ...fields } = form
  return { ...fields, ...stored }
}

export type ToldMessage = Omit<AgentMessage, 'parts'> & { parts?: ToldPart[] }

export function toldMessage(message: AgentMessage): ToldMessage {
  const { parts } = message
  return parts ? { ...message, parts: parts.map(toldPart) } : (message as ToldMessage)
}

export function toldEvent(event: RuntimeEvent<unknown>): object {
  if (event.type === 'message') return { ...event, message: toldMessage(event.message) }
  if (event.type === 'message.dead')
    return { ...event, letter: { ...event.letter, message: toldMessage(event.letter.message) } }
  return event
}

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
