/**
 * The alarms of detectors. All have one kind of record, which carries its own words, so that a new detector changes
 * nothing where records are read: events, trace, diagram, log lines, spans and the terminal.
 */

/** A turn that waits, and the agents that it waits for, by name. */
export interface NamedWait {
  agent: string
  for: string[]
  kind: string
}

/** Fields of the events of each detector, by the event's type. A new detector adds its row. */
export interface AlarmFields {
  /** `victim`: the agent whose wait was given up so that the others go on; null: the deadlock stands. */
  deadlock: { cycle: string[]; tail: string[]; waits: NamedWait[]; victim: string | null }
  /** `evidence`: the signs since the last progress: names, counts and ids alone. */
  livelock: { evidence: string[] }
  stall: { evidence: string[] }
}

/** Finding of a detector. */
export type Alarm = {
  [Name in keyof AlarmFields]: {
    /** Type of the event. */
    readonly name: Name
    /** Agents that it is about. */
    readonly agents: readonly string[]
    /** Text of the log line. No words of agents: names, counts and ids alone, like the sentence. */
    readonly title: string
    /** Description for people who watch: in events, on a terminal and in diagrams, after the name. */
    readonly sentence: string
    readonly fields: Readonly<AlarmFields[Name]>
    /** Further fields of the log line, the trace and the span. */
    readonly details?: Readonly<Record<string, string | number>>
  }
}[keyof AlarmFields]
