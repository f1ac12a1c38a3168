/** Talks with the desk: with a model of your own a session at the terminal, without one a session that is played from a script. */
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { createTeam, type RuntimeEvent, type Team } from 'dramatis'
import { hasModel } from '../lib/has-model.ts'
import { playedModel, REQUEST } from './session.ts'
import { codingDesk } from './team.ts'

/** How a question of an agent is answered. */
type Answer = (text: string, choices?: readonly string[]) => Promise<string>

async function talk(team: Team, request: string, answer: Answer): Promise<void> {
  const run = team.launch(request, { threadId: 'desk' })
  for await (const event of run.events()) {
    if (event.type === 'question') await run.answer(event.questionId, await answer(event.text, event.choices))
    const line = lineOf(event)
    if (line !== undefined) console.error(line)
  }
  const result = await run.result
  console.log(result.success ? result.finalOutput : `It failed: ${result.error.message}`)
}

function lineOf(event: RuntimeEvent): string | undefined {
  switch (event.type) {
    case 'tool.finished':
      return `  ${event.agent}: ${event.tool}${event.error ? ` failed: ${event.error.message}` : ''}`
    case 'task':
      return `  task ${event.task.status}: ${event.task.assignedTo}: ${event.task.description}`
    default:
      return undefined
  }
}

async function played(team: Team): Promise<void> {
  console.error('No OPENAI_API_KEY: what the models say is a script. Files, commands and their results are real.\n')
  console.error(`> ${REQUEST}`)
  await talk(team, REQUEST, async (text, choices = []) => {
    console.error(`  asked: ${text} (${choices.join(' | ')})\n> ${choices[0]}`)
    return choices[0] ?? 'yes'
  })
}

async function atTerminal(team: Team): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const answer: Answer = (text, choices = []) =>
    terminal.question(`${text}${choices.length > 0 ? ` (${choices.join(' | ')})` : ''} `)
  terminal.setPrompt('> ')
  terminal.prompt()
  for await (const line of terminal) {
    if (line.trim() !== '') await talk(team, line, answer)
    terminal.prompt()
  }
}

/** Its sources, seen from here or from the compiled copy of this file. */
function agentsFile(): URL {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    const file = new URL('examples/coding-desk/agents.yaml', folder)
    if (existsSync(file)) return file
    if (folder.pathname === new URL('..', folder).pathname)
      throw new Error('examples/coding-desk is not in any folder above this file.')
  }
}

const root = await mkdtemp(join(tmpdir(), 'coding-desk-'))
const model = hasModel() ? undefined : playedModel()
const desk = await codingDesk({ root, agentsFile: agentsFile(), ...(model && { models: { default: model } }) })
const team = createTeam(desk)
try {
  await (model ? played(team) : atTerminal(team))
  model?.assertDone()
  if (!model) console.error(`\nWhat was made is in ${root}.`)
} finally {
  await team.close()
  if (model) await rm(root, { recursive: true })
}
