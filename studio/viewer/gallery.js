// The pictures that come along: the value is the index of the chosen one, -1 when another picture is shown.
const mark = () => element.querySelectorAll('button').forEach((button) => {
  button.setAttribute('aria-pressed', String(Number(button.dataset.index) === props.value));
});
element.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  props.value = Number(button.dataset.index);
  trigger('input');
  mark();
});
watch('value', mark);
mark();
