/** The built-in tools have the inputs and answers that the contract gives them. */
import type { Tool } from 'dramatis'
import { calculator, convert, readFile, runCode, runCommand, workspace, writeFile } from 'dramatis/tools'

export const arithmetic: Tool<{ expression: string }, string> = calculator
export const conversion: Tool<{ value: string; from: string; to: string }, string> = convert
export const program: Tool<{ code: string; input?: unknown }, string> = runCode
export const reading: Tool<{ path: string }, string> = readFile
export const writing: Tool<{ path: string; content: string }, void> = writeFile
export const command: Tool<{ command: string; args?: string[] }, string> = runCommand
export const tools: Tool[] = workspace({ root: './work', allow: ['python', 'pytest'] })

// @ts-expect-error a workspace has a root
workspace({ allow: ['python'] })
