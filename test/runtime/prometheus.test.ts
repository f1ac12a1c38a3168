/** Prometheus' text format, for what a team does not have by itself: hostile labels, numbers that are none. */
import t from 'tap'
import { type Metric, prometheusText } from '../../src/runtime/views/histogram.ts'
import { readExposition } from '../team/exposition.ts'

const gauge = (samples: Metric['samples'], help = 'Help.'): Metric => ({ name: 'm', help, kind: 'gauge', samples })

t.test('labels and help may have any character', async (t) => {
  const hostile = 'a "quoted" \\ back\\nslash,\nsecond="line"} 5'
  const text = prometheusText([gauge([{ labels: { x: hostile, y: '' }, value: 1 }], hostile)])
  t.equal(text.split('\n').length, 4)
  const { heads, series } = readExposition(text)
  t.same(heads, [{ name: 'm', help: hostile, kind: 'gauge' }])
  t.same(series, [{ name: 'm', of: 'm', labels: { x: hostile, y: '' }, value: 1 }])
})

t.test('numbers are written as Prometheus reads them', async (t) => {
  const values = [
    0,
    -1.5,
    1e21,
    5e-324,
    Number.MAX_SAFE_INTEGER,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.NaN,
  ]
  const text = prometheusText([gauge(values.map((value, i) => ({ labels: { i: String(i) }, value })))])
  t.same(
    readExposition(text).series.map(({ value }) => value),
    values,
  )
  t.match(text, '"5"} +Inf\n')
  t.match(text, '"6"} -Inf\n')
})

t.test('a metric without samples is not there', async (t) => {
  t.equal(prometheusText([gauge([])]), '')
})
