/** `--trace <file>`: what happened in a run, as a picture or as data, by the file's name. */
import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import { ConfigurationError } from '../errors.ts'
import { sequenceDiagram } from '../runtime/runs/diagram.ts'
import type { OrchestrationTrace } from '../runtime/runs/trace-types.ts'
import { jsonText } from './json-text.ts'

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
