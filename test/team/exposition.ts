/** Reads Prometheus' text format, version 0.0.4, and refuses what a server would refuse. */
import type { Metric } from '../../src/index.ts'

export interface Series {
  name: string
  /** The metric that it stands below. */
  of: string
  labels: Record<string, string>
  value: number
}

export interface Exposition {
  heads: { name: string; help: string; kind: Metric['kind'] }[]
  series: Series[]
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y
const SUFFIXES: Record<Metric['kind'], string[]> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
}

export function readExposition(text: string): Exposition {
  if (!text.endsWith('\n')) throw new Error('the last line has no end')
  const page: Exposition = { heads: [], series: [] }
  const lines = text.slice(0, -1).split('\n')
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!
    const help = /^# HELP (\S+) (.+)$/.exec(line)
    if (help) {
      const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(lines[++i] ?? '')
      if (type?.[1] !== help[1]) throw new Error(`no type after: ${line}`)
      page.heads.push({ name: help[1]!, help: plain(help[2]!), kind: type![2] as Metric['kind'] })
    } else page.series.push(readSample(line, page.heads.at(-1)))
  }
  return page
}

function readSample(line: string, head: Exposition['heads'][number] | undefined): Series {
  const [, name, labels = '', value] = SAMPLE.exec(line) ?? []
  if (name === undefined || value === undefined) throw new Error(`no sample: ${line}`)
  if (!head || !SUFFIXES[head.kind].some((suffix) => name === head.name + suffix))
    throw new Error(`not below its head: ${line}`)
  const number = Number(value.replace('Inf', 'Infinity')) // with its sign
  if (Number.isNaN(number) && value !== 'NaN') throw new Error(`no number: ${line}`)
  return { name, of: head.name, labels: readLabels(labels), value: number }
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  while (LABEL.lastIndex < text.length) {
    const at = LABEL.lastIndex
    const found = LABEL.exec(text)
    if (!found) throw new Error(`no label: ${text.slice(at)}`)
    labels[found[1]!] = plain(found[2]!)
  }
  return labels
}

const plain = (text: string) => text.replaceAll(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character))
