/**
 * Questions of agents, put to whoever sits at the terminal: one after the other, each answered by a line of the input.
 */
import { createInterface } from 'node:readline'
import { DramatisError, type OpenQuestionInfo, type Team } from '../index.ts'
import { visible } from '../visible.ts'
import type { Print } from './answer-stream.ts'

/** Question as events and `team.questions` have it. */
export type Question = Pick<OpenQuestionInfo, 'runId' | 'questionId' | 'agent' | 'text' | 'choices'>

/** The part of a team that asks. */
export type Asking = Pick<Team, 'events' | 'getRun'>

export interface AskPerson {
  /** Puts a question that was asked before. */
  ask(question: Question): void
  stop(): void
}

/**
 * Answers what is asked from now on until `stop()`. Nothing is read before somebody asks. `unanswerable` is called with
 * a question that comes when the input has ended. Default: its run is cancelled.
 */
export function askPerson(
  team: Asking,
  input: NodeJS.ReadableStream,
  print: Print,
  unanswerable = async ({ agent, runId }: Question): Promise<void> =>
    team.getRun(runId)?.cancel(`${agent} asked a question, and the input has ended: nobody can answer`),
): AskPerson {
  const waiting: Question[] = []
  let lines: Lines | undefined
  let busy = false

  async function answerAll(): Promise<void> {
    if (busy) return
    busy = true
    lines ??= new Lines(input)
    for (let question = waiting.shift(); question; question = waiting.shift()) await answer(question, lines)
    busy = false
  }

  async function answer(question: Question, from: Lines): Promise<void> {
    const run = team.getRun(question.runId)
    for (;;) {
      print(questionText(question))
      const line = await from.next()
      if (line === undefined) return unanswerable(question)
      try {
        return await run?.answer(question.questionId, choiceOf(question, line.trim()))
      } catch (error) {
        if (!(error instanceof DramatisError)) throw error
        print(`${error.message}\n`)
        if (error.details.path !== 'answer') return
      }
    }
  }

  const ask = (question: Question) => {
    waiting.push(question)
    void answerAll()
  }
  const subscription = team.events.subscribe((event) => {
    if (event.type === 'question') ask(event)
  })
  return {
    ask,
    stop() {
      subscription.unsubscribe()
      waiting.length = 0
      lines?.close()
    },
  }
}

function questionText({ agent, text, choices = [] }: Question): string {
  const lines = visible(text, '\n') // the words are a model's, and could steer the terminal
  return [`${agent} asks: ${lines}`, ...choices.map((choice, i) => `  ${i + 1}. ${visible(choice)}`), ''].join('\n')
}

/** By its words, or by its number. */
function choiceOf({ choices = [] }: Question, line: string): string {
  return choices.includes(line) ? line : (choices[Number(line) - 1] ?? line)
}

/** The lines of a stream, one at a time. */
class Lines {
  readonly #reader: ReturnType<typeof createInterface>
  readonly #next: AsyncIterator<string>

  constructor(input: NodeJS.ReadableStream) {
    this.#reader = createInterface({ input, terminal: false }) // Ctrl-C stays the process's own
    this.#next = this.#reader[Symbol.asyncIterator]()
  }

  /** undefined: there are no more. */
  async next(): Promise<string | undefined> {
    const { value, done } = await this.#next.next()
    return done ? undefined : value
  }

  close(): void {
    this.#reader.close()
  }
}
