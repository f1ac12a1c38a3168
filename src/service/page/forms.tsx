/** Form that gives the team a task. */
import type { JSX, TargetedEvent } from 'preact'
import { useState } from 'preact/hooks'
import { span } from '../../runtime/views/slow.ts'
import type { Task, TaskQuestion, TaskSteer } from '../http/schemas.ts'
import { approvalWords, rehearsalCommand } from '../pictures/run-words.ts'
import { now } from './live.ts'
import { Button, Failure, useSending, Verbatim } from './parts.tsx'
import { goTo, linkTo, mayRun, shape, team } from './place.ts'
import { ask, Refused, taskPath } from './service.ts'
import { questions, refresh, tasks } from './tasks.ts'
import { shown, Words } from './words.tsx'

interface Props {
  label: string
  thread?: string | undefined
  begun(task: Task): void
  /** Task that is under way: a line is said to it. */
  busy?: string | undefined
}

/** Tasks stream: whoever opens one reads the answer as it is written. */
export function AskForm({ label, thread, begun, busy }: Props): JSX.Element | null {
  const [text, setText] = useState('')
  const { isSent, failure, send } = useSending(false)
  if (!mayRun.value) return null
  const begin = async (interrupts = false) => {
    const query = text.trim()
    if (query === '' || isSent) return
    await send(async () => {
      if (busy !== undefined && (await isSaid(busy, query, interrupts))) {
        setText('')
        return refresh()
      }
      const task = await beginTask(query, thread)
      setText('')
      refresh()
      begun(task)
    })
  }
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault()
        void begin()
      }}
    >
      <textarea
        aria-label={label}
        placeholder={label}
        rows={Math.min(10, Math.max(2, text.split('\n').length))}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
          event.preventDefault()
          void begin(event.altKey)
        }}
      />
      <Button
        text={busy === undefined ? 'Send' : 'Say it now'}
        type="submit"
        class="good"
        disabled={isSent || text.trim() === ''}
        title={`Enter sends, Shift+Enter is a new line${busy === undefined ? '' : ', Alt+Enter interrupts'}`}
      />
      <Failure text={failure} />
    </form>
  )
}

const beginTask = (query: string, thread: string | undefined): Promise<Task> =>
  ask<Task>('api/tasks', {
    method: 'POST',
    headers: { prefer: 'respond-async' },
    body: { query, team: team.value, stream: true, ...(thread && { threadId: thread }) },
  })

/** Ids of words that were said here. */
const saidHere = new Set<string>()

/** Sends what was said here to a task, and what nobody has read of it at its end, as the next message. */
export function sendUnread({ status, steers }: Task, thread: string): void {
  for (const { id, text, settled } of steers)
    if (settled === 'unread' && saidHere.delete(id) && status !== 'aborted')
      void beginTask(text, thread).then(refresh, () => {}) // the banner says that nobody answers
}

/** Says words to a task while it works. Resolves to false if it has ended by now. */
async function isSaid(task: string, words: string, interrupts: boolean): Promise<boolean> {
  const body = { words, ...(interrupts && { when: 'interrupt' }) }
  return ask<TaskSteer | undefined>(taskPath(task, 'steer'), { method: 'POST', body }).then(
    (said) => {
      if (said) saidHere.add(said.id)
      return true
    },
    (error: unknown) => {
      if (error instanceof Refused && error.status === 409) return false
      throw error
    },
  )
}

/** `isFirst`: the keys `a` and `d` are for it. */
function QuestionCard({ question, isFirst }: { question: TaskQuestion; isFirst: boolean }): JSX.Element {
  const { questionId, taskId, agent, kind, text, askedAt, refusal, digest } = question
  const { isSent, failure, send } = useSending(true)
  const answer = (given: unknown) =>
    void send(async () => {
      await ask(taskPath(taskId, 'answers'), { method: 'POST', body: { questionId, answer: given, digest } })
      questions.value = questions.value.filter((each) => each.questionId !== questionId)
      refresh()
    })
  return (
    <section class="question" aria-label={`${kind === 'approval' ? 'Approval' : 'Question'} of ${shown(agent)}`}>
      <header>
        <strong>{kind === 'approval' ? 'Approval' : 'Question'}</strong> <Words text={agent} />{' '}
        <span class="dim">
          asks, {span(now.value - Date.parse(askedAt))} ago ·{' '}
          <a href={linkTo({ view: 'tasks', task: taskId })}>its task</a>
        </span>
      </header>
      {kind === 'approval' ? (
        <Approval question={question} isFirst={isFirst} isSent={isSent} answer={answer} />
      ) : (
        <>
          <p class="asked">
            <Words text={text} />
          </p>
          {refusal === null && <Reply question={question} isSent={isSent} answer={answer} />}
        </>
      )}
      {kind === 'approval' && (
        <p class="dim policy">
          <Words text={policyWords(question)} />
        </p>
      )}
      {refusal !== null && (
        <p class="dim refusal">
          <Words text={refusal} />
        </p>
      )}
      <Failure text={failure} />
    </section>
  )
}

function policyWords({ by = 'others', groups = [], quorum = 1, agreed = [], answerBy }: TaskQuestion): string {
  const leftMs = answerBy === null ? undefined : Date.parse(answerBy) - now.value
  return approvalWords({ by, groups, quorum, agreed: agreed.map(({ id }) => id) }, leftMs)
}

interface Answering {
  question: TaskQuestion
  isSent: boolean
  answer(given: unknown): void
}

/** Characters of a text beside the input, which is there as a whole. */
const MOST_OF_TEXT = 600

function Approval({ question, isFirst, isSent, answer }: Answering & { isFirst: boolean }): JSX.Element {
  const { tool, text, input, refusal, taskId } = question
  const query = tasks.value.find(({ id }) => id === taskId)?.query
  const asked = input === undefined ? '' : JSON.stringify(input, null, 2)
  const [edited, setEdited] = useState<string | undefined>(undefined)
  const [reason, setReason] = useState('')
  const [fault, setFault] = useState('')
  const allow = () => {
    if (edited === undefined || edited === asked) return answer({ approved: true })
    try {
      answer({ approved: true, input: JSON.parse(edited) })
    } catch {
      setFault('The input is no JSON.')
    }
  }
  const deny = () => answer({ approved: false, ...(reason !== '' && { reason }) })
  const pressedBy = (press: string, hint: string) => (isFirst ? { 'data-press': press, hint } : {})
  return (
    <>
      {tool !== undefined && (
        <p class="asked">
          wants to call <code>{shown(tool)}</code>
        </p>
      )}
      <p class="asked">
        <Words text={text} most={MOST_OF_TEXT} />
      </p>
      {query !== undefined && (
        <p class="dim">
          for the task: <Words text={query} most={MOST_OF_TEXT} />
        </p>
      )}
      {asked !== '' && edited === undefined && <Verbatim text={asked} />}
      {edited !== undefined && (
        <label>
          Input of the call
          <textarea
            rows={Math.min(12, edited.split('\n').length + 1)}
            value={edited}
            onInput={(event) => setEdited(event.currentTarget.value)}
          />
        </label>
      )}
      {fault !== '' && <p class="failure">{fault}</p>}
      {refusal === null && (
        <div class="row">
          <Button text="Allow" class="good" disabled={isSent} onClick={allow} {...pressedBy('allow', 'a')} />
          <Button text="Deny" class="bad" disabled={isSent} onClick={deny} {...pressedBy('deny', 'd')} />
          <input
            class="grow reason"
            placeholder="Reason to deny"
            aria-label="Reason to deny"
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
          {asked !== '' && edited === undefined && <Button text="Change the input" onClick={() => setEdited(asked)} />}
        </div>
      )}
    </>
  )
}

/** Field of a form, as its JSON schema has it. */
interface Field {
  type?: unknown
  enum?: unknown
  title?: unknown
  description?: unknown
  format?: unknown
}

const INPUTS: ReadonlyMap<unknown, string> = new Map([
  ['integer', 'number'],
  ['number', 'number'],
  ['boolean', 'checkbox'],
  ['email', 'email'],
  ['uri', 'url'],
  ['date', 'date'],
])

/** Returns what stands in a field of a page as the value that its schema asks for; undefined: nothing does. */
function valueIn(given: FormDataEntryValue | null, { type, enum: values }: Field): unknown {
  if (type === 'boolean') return given !== null
  if (typeof given !== 'string' || given === '') return undefined
  if (Array.isArray(values)) return values.find((value) => String(value) === given)
  return type === 'number' || type === 'integer' ? Number(given) : given
}

const wordsOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

const PLAIN: readonly unknown[] = ['string', 'number', 'integer', 'boolean']

const isPlain = ({ type, enum: values }: Field): boolean =>
  Array.isArray(values) ? values.every((value) => Object(value) !== value) : PLAIN.includes(type)

/** A form of fields without fields of their own; any other is answered in JSON. */
function Fields({ form, isSent, answer }: Omit<Answering, 'question'> & { form: object }): JSX.Element {
  const { properties, required }: { properties?: unknown; required?: unknown } = form
  const fields = Object.entries(Object(properties)).map(([name, field]): [string, Field] => [name, Object(field)])
  const needed = Array.isArray(required) ? required : []
  const isFlat = fields.length > 0 && fields.every(([, field]) => isPlain(field))
  const submit = (event: TargetedEvent<HTMLFormElement>) => {
    event.preventDefault()
    const given = new FormData(event.currentTarget)
    if (!isFlat) return answer(String(given.get('json')))
    answer(JSON.stringify(Object.fromEntries(fields.map(([name, field]) => [name, valueIn(given.get(name), field)]))))
  }
  return (
    <form onSubmit={submit}>
      {!isFlat && <textarea name="json" rows={6} aria-label="Your answer in JSON" />}
      {isFlat &&
        fields.map(([name, { type, enum: values, title, description, format }]) => (
          <label key={name}>
            <Words text={wordsOf(title ?? name)} />
            {description !== undefined && (
              <span class="dim">
                {' '}
                <Words text={wordsOf(description)} />
              </span>
            )}
            {Array.isArray(values) ? (
              <select name={name} required={needed.includes(name)}>
                <option value="" />
                {values.map((value) => (
                  <option key={String(value)}>{shown(String(value))}</option>
                ))}
              </select>
            ) : (
              <input
                type={(INPUTS.get(format) ?? INPUTS.get(type) ?? 'text') as 'text'}
                name={name}
                step={type === 'integer' ? 1 : 'any'}
                required={type !== 'boolean' && needed.includes(name)}
              />
            )}
          </label>
        ))}
      <div class="row">
        <Button text="Answer" type="submit" class="good" disabled={isSent} />
        <Button text="Decline" class="bad" disabled={isSent} onClick={() => answer('no')} />
      </div>
    </form>
  )
}

function Reply({ question: { choices, form }, isSent, answer }: Answering): JSX.Element {
  const [text, setText] = useState('')
  if (form) return <Fields form={form} isSent={isSent} answer={answer} />
  if (choices)
    return (
      <div class="row">
        {choices.map((choice) => (
          <button type="button" key={choice} disabled={isSent} onClick={() => answer(choice)}>
            <Words text={choice} />
          </button>
        ))}
      </div>
    )
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault()
        if (text !== '') answer(text)
      }}
    >
      <input
        class="grow"
        aria-label="Your answer"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Button text="Answer" type="submit" class="good" disabled={isSent || text === ''} />
    </form>
  )
}

export const Questions = ({ of }: { of: readonly TaskQuestion[] }): JSX.Element => (
  <>
    {of.map((question, at) => (
      <QuestionCard key={question.questionId} question={question} isFirst={at === firstApproval(of)} />
    ))}
  </>
)

const firstApproval = (of: readonly TaskQuestion[]): number =>
  of.findIndex(({ kind, refusal }) => kind === 'approval' && refusal === null)

export function Rehearse({ id, query }: { id: string; query: string }): JSX.Element {
  const [state, setState] = useState<'closed' | 'copied' | 'by hand'>('closed')
  const command = rehearsalCommand({ id, query, file: shape.value?.file ?? null, log: shape.value?.log ?? null })
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command)
      setState('copied')
    } catch {
      setState('by hand') // there is no clipboard on a page that came without TLS
    }
  }
  return (
    <>
      <Button
        text="Copy as rehearsal"
        title="Copy the command that plays this task again"
        onClick={() => void copy()}
      />
      {state !== 'closed' && (
        <div class="command" role="status">
          <div class="row">
            <span class="grow">
              {state === 'copied' ? 'Copied. ' : 'Copy it by hand. '}
              {shape.value?.log
                ? 'It plays this task with the answers that it got, and the code of today.'
                : 'It plays the query through many schedules: without a durable log, answers are not kept.'}
            </span>
            <Button text="Close" onClick={() => setState('closed')} />
          </div>
          <Verbatim text={command} />
        </div>
      )}
    </>
  )
}

export function TaskChoice({ id }: { id: string }): JSX.Element {
  const isListed = tasks.value.some((task) => task.id === id)
  return (
    <select
      aria-label="Task"
      value={id}
      onChange={(event) => goTo({ task: event.currentTarget.value, at: undefined, key: undefined })}
    >
      {!isListed && <option value={id}>{id.slice(0, 8)}</option>}
      {tasks.value.map((task) => (
        <option key={task.id} value={task.id}>
          {shown(task.query.slice(0, 60))}
        </option>
      ))}
    </select>
  )
}
