// The button of a chart: it is there while there is something to take away, and says what became of it.

const find = (name) => element.querySelector(name);

function sayTaken(text) {
  find('.said').textContent = text;
}

function load() {
  find('.take-away').hidden = !props.value;
  sayTaken('');
}

find('.take').addEventListener('click', () => {
  if (props.value) saveFigure(find('.take'), () => server.take_strip({ token: props.value }), sayTaken);
});
watch('value', load);
load();
